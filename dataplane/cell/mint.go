package cell

import (
	"bytes"
	"crypto/rand"
	"slices"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// What the first server to take a request decides for it: apply reads neither
// clock nor randomness.

// NewID mints an id for a job of the queue.
func (c *Cell) NewID(queue string) job.ID {
	var entropy job.Entropy
	rand.Read(entropy[:]) // never fails: the runtime stops the process instead
	return job.NewID(time.Now().UnixMilli(), queue, entropy)
}

// NewIDs mints ids for new jobs of an enqueue. Those of one queue sort as the jobs do:
// what was enqueued together, and is fetched together, lies side by side in the store in
// the order in which it is written and read.
func (c *Cell) NewIDs(jobs []*op.NewJob) []job.ID {
	const random = len(job.Entropy{}) // bytes of an id, its last
	var pool [64 * random]byte        // to ask for all at once costs a fraction
	ids := make([]job.ID, len(jobs))
	for i := range ids {
		at := i * random % len(pool)
		if at == 0 {
			rand.Read(pool[:min(len(pool), (len(ids)-i)*random)])
		}
		entropy := ids[i][len(ids[i])-random:]
		copy(entropy, pool[at:])
		entropy[0] &= 0x0f // what is not used must not count below
	}
	slices.SortFunc(ids, func(a, b job.ID) int { return bytes.Compare(a[:], b[:]) })
	nowMs := time.Now().UnixMilli()
	for i, n := range jobs {
		ids[i] = job.NewID(nowMs, n.Queue, job.Entropy(ids[i][len(ids[i])-random:]))
	}
	return ids
}

// LeaseSeed mints the seed a fetch's lease tokens are derived from.
func (c *Cell) LeaseSeed() []byte {
	seed := make([]byte, 16)
	rand.Read(seed)
	return seed
}

// RequestID mints what tells a repeat of a request from the next one.
func (c *Cell) RequestID() []byte {
	id := make([]byte, 16)
	rand.Read(id)
	return id
}

// NowNs is the clock the next entry would be stamped with, in Unix nanoseconds.
// A member that does not lead has only an idea of it: the last entry may be long
// ago, so its own clock speaks unless that is behind.
func (c *Cell) NowNs() int64 {
	now := c.group.ClockNs()
	if c.group.Leader() {
		return now
	}
	return max(now, time.Now().UnixNano())
}
