package state

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/corvo/corvo/dataplane/job"
)

// A queue may have any number of jobs, so it is cleared or deleted over many entries. The queue's record says
// so, and a new leader continues the removal. The store keeps the set of such queues in memory.

// Clearing describes a queue whose jobs are being removed, as of the last commit.
type Clearing struct {
	Queue    string
	Below    uint64 // waiting jobs with a lower number are removed
	Deleting bool   // all jobs are removed, and then the queue
	Active   uint64 // number of active jobs
	Rest     uint64 // number of jobs in all other states
}

// clearings is the set of queues that are being cleared or deleted.
type clearings struct {
	mu     sync.Mutex
	queues map[string]*clearing
}

type clearing struct {
	Clearing
	done chan struct{} // closed when the clearing ends
}

// closedChannel is a closed channel, for a queue that is not being cleared.
var closedChannel = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// clears reports whether the queue's jobs are being removed.
func (q *queue) clears() bool { return q.rec.ClearBelow > 0 || q.rec.Deleting }

// Running returns the number of the queue's active jobs.
func (q *Queue) Running() uint64 {
	if len(q.GetInState()) <= int(job.Active) {
		return 0
	}
	return q.InState[job.Active]
}

// set records the state of a queue after a commit.
func (c *clearings) set(q *queue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !q.clears() {
		c.end(q.rec.Name)
		return
	}
	now := Clearing{Queue: q.rec.Name, Below: q.rec.ClearBelow, Deleting: q.rec.Deleting, Active: q.rec.InState[job.Active]}
	for s, n := range q.rec.InState {
		if job.State(s) != job.Active {
			now.Rest += n
		}
	}
	known := c.queues[q.rec.Name]
	if known == nil {
		known = &clearing{done: make(chan struct{})}
		if c.queues == nil {
			c.queues = map[string]*clearing{}
		}
		c.queues[q.rec.Name] = known
	}
	known.Clearing = now
}

// end removes a queue that is no longer being cleared, or no longer exists. The caller holds mu.
func (c *clearings) end(name string) {
	if known := c.queues[name]; known != nil {
		close(known.done)
		delete(c.queues, name)
	}
}

// drop removes a deleted queue.
func (c *clearings) drop(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(name)
}

// keep removes the queues that do not exist after a restore.
func (c *clearings) keep(queues map[string]*queue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.queues {
		if queues[name] == nil {
			c.end(name)
		}
	}
}

// Clearings returns the queues whose jobs are being removed, sorted by name.
func (s *Store) Clearings() []Clearing {
	s.clearings.mu.Lock()
	defer s.clearings.mu.Unlock()
	all := make([]Clearing, 0, len(s.clearings.queues))
	for c := range maps.Values(s.clearings.queues) {
		all = append(all, c.Clearing)
	}
	slices.SortFunc(all, func(a, b Clearing) int { return strings.Compare(a.Queue, b.Queue) })
	return all
}

// Cleared returns a channel that is closed once no jobs of the queue are being removed. It is closed already
// if none are.
func (s *Store) Cleared(queue string) <-chan struct{} {
	s.clearings.mu.Lock()
	defer s.clearings.mu.Unlock()
	if known := s.clearings.queues[queue]; known != nil {
		return known.done
	}
	return closedChannel
}
