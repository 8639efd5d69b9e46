package cell

import (
	"bytes"
	"crypto/rand"
	"slices"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// The functions below draw random values and read the clock for a request on the first server that takes it,
// because apply reads neither clock nor randomness.

// NewID returns a new id for a job of the queue.
func (c *Cell) NewID(queue string) job.ID {
	var entropy job.Entropy
	rand.Read(entropy[:]) // never fails: the runtime stops the process instead
	return job.NewID(time.Now().UnixMilli(), queue, entropy)
}

// NewIDs returns ids for the new jobs of an enqueue. Within a queue the ids sort like the jobs, so that jobs
// that are enqueued and fetched together are adjacent in the store, in the order in which they are written
// and read.
func (c *Cell) NewIDs(jobs []*op.NewJob) []job.ID {
	const random = len(job.Entropy{}) // the last bytes of an id
	var pool [64 * random]byte        // drawing for all at once costs a fraction
	ids := make([]job.ID, len(jobs))
	for i := range ids {
		at := i * random % len(pool)
		if at == 0 {
			rand.Read(pool[:min(len(pool), (len(ids)-i)*random)])
		}
		entropy := ids[i][len(ids[i])-random:]
		copy(entropy, pool[at:])
		entropy[0] &= 0x0f // clear the unused bits, so that they do not affect the order
	}
	slices.SortFunc(ids, func(a, b job.ID) int { return bytes.Compare(a[:], b[:]) })
	nowMs := time.Now().UnixMilli()
	for i, n := range jobs {
		ids[i] = job.NewID(nowMs, n.Queue, job.Entropy(ids[i][len(ids[i])-random:]))
	}
	return ids
}

// LeaseSeed returns the seed from which a fetch's lease tokens are derived.
func (c *Cell) LeaseSeed() []byte {
	seed := make([]byte, 16)
	rand.Read(seed)
	return seed
}

// RequestID returns an id that distinguishes a repeated request from the next one.
func (c *Cell) RequestID() []byte {
	id := make([]byte, 16)
	rand.Read(id)
	return id
}

// NowNs returns the clock that the next entry would carry, in Unix nanoseconds. A member that does not lead
// can only estimate it: the last entry may be old, so NowNs returns the later one of the last entry's clock
// and the host's.
func (c *Cell) NowNs() int64 {
	now := c.group.ClockNs()
	if c.group.Leader() {
		return now
	}
	return max(now, time.Now().UnixNano())
}
