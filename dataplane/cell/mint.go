package cell

import (
	"crypto/rand"
	"time"

	"github.com/corvo/corvo/dataplane/job"
)

// What the first server to take a request decides for it: apply reads neither
// clock nor randomness.

// NewID mints an id for a job of the queue.
func (c *Cell) NewID(queue string) job.ID {
	var entropy job.Entropy
	rand.Read(entropy[:]) // never fails: the runtime stops the process instead
	return job.NewID(time.Now().UnixMilli(), queue, entropy)
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
