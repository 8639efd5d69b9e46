package job

import (
	"crypto/sha256"
	"encoding/binary"
)

// VariedDelayMs is DelayMs varied by at most JitterPercent of it, either way, but
// never above MaxDelayMs: so that jobs which failed together do not all come back
// together. It is a function of the job and the attempt, not of chance, since every
// replica must find the same. The whole range is drawn from, cut at MaxDelayMs: to
// cut what was drawn would gather half of the jobs at the longest delay.
func (r *Retry) VariedDelayMs(id ID, attempt uint32) int64 {
	delay := r.DelayMs(attempt)
	percent := int64(min(r.GetJitterPercent(), 100))
	if delay == 0 || percent == 0 {
		return delay
	}
	span := delay/100*percent + delay%100*percent/100 // without the product
	up := min(span, r.GetMaxDelayMs()-delay)
	sum := sha256.Sum256(binary.BigEndian.AppendUint32(id[:], attempt))
	drawn := binary.BigEndian.Uint64(sum[:]) % (uint64(span) + uint64(up) + 1)
	return int64(uint64(delay-span) + drawn)
}
