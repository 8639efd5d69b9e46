package loadgen

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// A payload is {"at":"0000000001234567890","pad":"..."}: the intended time of the job's enqueue, in
// nanoseconds of the run, and letters up to the configured size.
const (
	payloadHead = `{"at":"`
	payloadMid  = `","pad":"`
	payloadTail = `"}`
	atDigits    = 19

	// MinPayload is the size of a payload without letters.
	MinPayload = len(payloadHead) + atDigits + len(payloadMid) + len(payloadTail)
)

// letterPool is the number of letters from which pads are cut at random places, so that a store that
// compresses neighbours together finds little repetition.
const letterPool = 1 << 16

// payloads makes the payloads of one client.
type payloads struct {
	size    int
	letters []byte
	random  *rand.Rand
}

func newPayloads(size int, seed uint64) *payloads {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	p := &payloads{size: size, letters: make([]byte, letterPool), random: rand.New(rand.NewPCG(seed, seed))}
	for i := range p.letters {
		p.letters[i] = alphabet[p.random.IntN(len(alphabet))]
	}
	return p
}

// next builds the payload of a job whose enqueue was intended at a time of the run. It overwrites old, which
// may be nil and must not be needed any more.
func (p *payloads) next(old []byte, at time.Duration) []byte {
	out := append(slices.Grow(old[:0], p.size), payloadHead...)
	for unit := int64(1e18); unit > 0; unit /= 10 { // 1e18 has atDigits digits
		out = append(out, byte('0'+max(int64(at), 0)/unit%10))
	}
	out = append(out, payloadMid...)
	for pad := p.size - MinPayload; pad > 0; {
		from := p.random.IntN(letterPool)
		part := p.letters[from:min(from+pad, letterPool)]
		out = append(out, part...)
		pad -= len(part)
	}
	return append(out, payloadTail...)
}

// enqueuedAt returns the time that a payload carries.
func enqueuedAt(payload []byte) (at time.Duration, ok bool) {
	rest, ok := bytes.CutPrefix(payload, []byte(payloadHead))
	if !ok || len(rest) < atDigits {
		return 0, false
	}
	ns, err := strconv.ParseInt(string(rest[:atDigits]), 10, 64)
	return time.Duration(ns), err == nil
}
