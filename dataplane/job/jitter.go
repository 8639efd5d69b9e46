package job

import (
	"crypto/sha256"
	"encoding/binary"
)

// VariedDelayMs varies DelayMs by at most JitterPercent either way, but never above MaxDelayMs, so that jobs
// that failed together do not all return together. It is a function of the job and the attempt and uses no
// random source, because every replica must compute the same. It draws from the range cut at MaxDelayMs;
// cutting the drawn value instead would gather half of the jobs at the longest delay.
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
