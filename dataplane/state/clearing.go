package state

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/corvo/corvo/dataplane/job"
)

// A queue may have any number of jobs, so it is cleared and deleted over many
// entries. Its record says that it is under way, so that a new leader goes on; the
// store keeps in memory which queues' records do.

// Clearing is a queue whose jobs are being removed, as of the last commit.
type Clearing struct {
	Queue    string
	Below    uint64 // jobs that wait and have a lower number go
	Deleting bool   // all jobs go, and then the queue
	Active   uint64 // jobs that are active
	Rest     uint64 // jobs in all other states
}

// clearings are the queues that are being cleared or deleted.
type clearings struct {
	mu     sync.Mutex
	queues map[string]*clearing
}

type clearing struct {
	Clearing
	done chan struct{} // closed at its end
}

// nothing is the end of what has not begun.
var nothing = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// clears says whether the queue's jobs are being removed.
func (q *queue) clears() bool { return q.rec.ClearBelow > 0 || q.rec.Deleting }

// Running is how many of the queue's jobs are active.
func (q *Queue) Running() uint64 {
	if len(q.GetInState()) <= int(job.Active) {
		return 0
	}
	return q.InState[job.Active]
}

// set notes what a commit has made of a queue.
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

// end notes that a queue is not cleared any more, or gone; mu is held.
func (c *clearings) end(name string) {
	if known := c.queues[name]; known != nil {
		close(known.done)
		delete(c.queues, name)
	}
}

// drop notes that a queue is gone.
func (c *clearings) drop(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(name)
}

// keep ends those of queues that are not among these: after a restore.
func (c *clearings) keep(queues map[string]*queue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.queues {
		if queues[name] == nil {
			c.end(name)
		}
	}
}

// Clearings lists the queues whose jobs are being removed, by name.
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

// Cleared is closed when no jobs of the queue are being removed any more: at once
// where none are.
func (s *Store) Cleared(queue string) <-chan struct{} {
	s.clearings.mu.Lock()
	defer s.clearings.mu.Unlock()
	if known := s.clearings.queues[queue]; known != nil {
		return known.done
	}
	return nothing
}
