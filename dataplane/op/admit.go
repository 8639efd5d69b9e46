package op

import (
	"errors"
	"slices"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// fullRetry is when an enqueue into a full queue is worth another try. Nobody knows
// when its workers will have made room.
const fullRetry = time.Second

// admit refuses what the queues do not take in, before anything is written: a queue
// that is being deleted, a queue too many, more jobs than may wait. It returns the
// queues that have a bound, with what they get.
func (o *Enqueue) admit(tx *state.Tx, met meetings) ([]crowd, error) {
	var crowds []crowd
	var fresh map[string]struct{}
	var q *state.Queue
	for i, nj := range o.Jobs {
		if i == 0 || nj.Queue != o.Jobs[i-1].Queue {
			q = tx.Queue(nj.Queue)
		}
		switch {
		case q == nil:
			if fresh == nil {
				fresh = map[string]struct{}{}
			}
			fresh[nj.Queue] = struct{}{}
		case q.Deleting:
			return nil, api.Errorf(api.Conflict, "queue %q is being deleted; it takes jobs again when its last one is gone", q.Name)
		case q.MaxLength > 0 && met.at(i).found == Found_FOUND_NONE:
			crowds = gather(crowds, q)
		}
	}
	if err := admitQueues(tx, len(fresh)); err != nil {
		return nil, err
	}
	for i := range crowds {
		if err := crowds[i].admit(); err != nil {
			return nil, err
		}
		if crowds[i].drops > 0 && tx.Full() {
			err := api.Errorf(api.Overloaded, "too much follows from the jobs that are dropped to make room in queue %q: try again", crowds[i].queue.Name)
			err.RetryAfter = fullRetry
			return nil, err
		}
	}
	return crowds, nil
}

// admitQueues refuses n new queues where they do not fit. It is a conflict with
// what exists: waiting does not help, as it would with QUEUE_FULL.
func admitQueues(tx *state.Tx, n int) error {
	if n == 0 || tx.CanAddQueues(n) {
		return nil
	}
	return api.Errorf(api.Conflict, "there are as many queues as there may be (%d); use one of them, or remove one first", job.MaxQueues)
}

// crowd is how many jobs an op makes in a queue that has a bound, and how many have
// to go for them.
type crowd struct {
	queue *state.Queue
	jobs  uint64
	drops uint64
}

// gather counts one more job for a queue.
func gather(crowds []crowd, q *state.Queue) []crowd {
	i := slices.IndexFunc(crowds, func(c crowd) bool { return c.queue == q })
	if i < 0 {
		return append(crowds, crowd{queue: q, jobs: 1})
	}
	crowds[i].jobs++
	return crowds
}

// excess is by how many jobs the queue would be too long. It is never more than what
// comes: a bound that was lowered below what waits drops nothing by itself.
func (c *crowd) excess() uint64 {
	waiting := c.queue.InState[job.Pending] + c.queue.InState[job.Scheduled] + c.queue.InState[job.Retrying]
	if after := waiting + c.jobs; after > c.queue.MaxLength {
		return min(after-c.queue.MaxLength, c.jobs)
	}
	return 0
}

// admit refuses jobs for which there is no room, and none can be made. More than may wait
// at all are a conflict with the setting: waiting does not help, as it would with QUEUE_FULL.
func (c *crowd) admit() error {
	q, excess := c.queue, c.excess()
	if excess == 0 {
		return nil
	}
	if c.jobs > q.MaxLength {
		return api.Errorf(api.Conflict, "queue %q takes no %s at once: at most %s may wait in it; send at most %d at once, or raise max_length", q.Name, Jobs(c.jobs), Jobs(q.MaxLength), q.MaxLength)
	}
	if q.Overflow == job.Overflow_OVERFLOW_DROP_OLDEST && q.Ready() >= excess {
		c.drops = excess
		return nil
	}
	err := api.Errorf(api.QueueFull, "queue %q is full: at most %s may wait in it, and there is no room for %d of %d; try again when some have been fetched", q.Name, Jobs(q.MaxLength), excess, c.jobs)
	err.RetryAfter = fullRetry
	return err
}

// makeRoom drops as many jobs of the queue as are too many.
//
// What is dropped is the oldest ready job of the least urgent priority that has
// any. The one that would be fetched next was rejected: it is the most urgent there
// is. Jobs that wait for a time were, too: whoever set it expects them then, and a
// retry has cost something already. The new jobs are not looked at, urgent or not: an
// enqueue that is answered with success has its jobs in the queue.
func (c *crowd) makeRoom(tx *state.Tx) error {
	for range c.drops {
		id, ok, err := tx.NextToDrop(c.queue.Name)
		if err != nil {
			return err
		}
		if !ok {
			return errors.New("no job is ready any more")
		}
		if err := drop(tx, id); err != nil {
			return err
		}
	}
	return nil
}

const droppedText = "dropped: queue full"

// drop ends a pending job because its queue is full.
func drop(tx *state.Tx, id job.ID) error {
	j, err := tx.Job(id)
	if err != nil {
		return err
	}
	return die(tx, j, job.OnDrop, &job.AttemptError{Error: droppedText, Outcome: job.Dropped})
}
