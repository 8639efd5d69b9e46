package op

import (
	"errors"
	"slices"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// fullRetry is the Retry-After of an enqueue into a full queue. Nobody knows when the queue's workers will
// have made room.
const fullRetry = time.Second

// admit refuses jobs for a queue that is being deleted, for more new queues than the shard may have, and for
// a queue with too many waiting jobs. It also refuses to drop jobs in a full entry. admit must run before
// anything is written. It returns the queues with a length limit that receive new jobs, with the number of
// the new jobs.
func (o *Enqueue) admit(tx *state.Tx, matches keyMatches) (admissions, error) {
	var queues admissions
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
		case q.MaxLength > 0 && matches.at(i).found == Found_FOUND_NONE:
			queues = queues.add(q)
		}
	}
	if err := admitQueues(tx, len(fresh)); err != nil {
		return nil, err
	}
	for i := range queues {
		if err := queues[i].admit(); err != nil {
			return nil, err
		}
		if queues[i].drops > 0 && tx.Full() {
			err := api.Errorf(api.Overloaded, "queue %q is full, and dropping its oldest jobs has too many consequences for one write: try again", queues[i].queue.Name)
			err.RetryAfter = fullRetry
			return nil, err
		}
	}
	return queues, nil
}

// admitQueues refuses n new queues if the shard may not have that many. The code is CONFLICT and not
// QUEUE_FULL, because waiting does not help.
func admitQueues(tx *state.Tx, n int) error {
	if n == 0 || tx.CanAddQueues(n) {
		return nil
	}
	return api.Errorf(api.Conflict, "the namespace has %d queues, the maximum: use an existing queue or delete one", job.MaxQueues)
}

// admission counts the jobs that an op adds to a queue with a length limit, and the ready jobs that the op
// must drop for them.
type admission struct {
	queue *state.Queue
	jobs  uint64
	drops uint64
}

// admissions has one admission for each queue that has a length limit and receives new jobs of an op.
type admissions []admission

// add counts one more job for queue q.
func (all admissions) add(q *state.Queue) admissions {
	i := slices.IndexFunc(all, func(a admission) bool { return a.queue == q })
	if i < 0 {
		return append(all, admission{queue: q, jobs: 1})
	}
	all[i].jobs++
	return all
}

// excess returns how many jobs too many the queue would have, but at most the number of new jobs, because a
// limit that was lowered below the current length drops nothing by itself.
func (a *admission) excess() uint64 {
	waiting := a.queue.InState[job.Pending] + a.queue.InState[job.Scheduled] + a.queue.InState[job.Retrying]
	if after := waiting + a.jobs; after > a.queue.MaxLength {
		return min(after-a.queue.MaxLength, a.jobs)
	}
	return 0
}

// admit refuses the jobs with QUEUE_FULL if the queue has no room and may not or cannot drop enough old jobs.
// If the op has more jobs for the queue than the queue's limit, the code is CONFLICT, because waiting does
// not help. admit sets a.drops.
func (a *admission) admit() error {
	q, excess := a.queue, a.excess()
	if excess == 0 {
		return nil
	}
	if a.jobs > q.MaxLength {
		return api.Errorf(api.Conflict, "queue %q takes no %s at once: at most %s may wait in it; send at most %d at once, or raise max_length", q.Name, Jobs(a.jobs), Jobs(q.MaxLength), q.MaxLength)
	}
	if q.Overflow == job.Overflow_OVERFLOW_DROP_OLDEST && q.Ready() >= excess {
		a.drops = excess
		return nil
	}
	err := api.Errorf(api.QueueFull, "queue %q is full: at most %s may wait in it, and %d of %d do not fit; try again after some have been fetched", q.Name, Jobs(q.MaxLength), excess, a.jobs)
	err.RetryAfter = fullRetry
	return err
}

// evict drops the excess jobs of the queue.
//
// Each dropped job is the oldest ready job of the least urgent priority that has ready jobs. In a queue with
// lanes, evict looks only at the lane with the most ready jobs. Dropping the job that would be fetched next
// was rejected, because that job is the most urgent one. Scheduled and retrying jobs stay, because their
// clients expect them at a known time, and a retry has already cost something. The new jobs are never
// dropped, whatever their priority, because an enqueue that succeeds has its jobs in the queue.
func (a *admission) evict(tx *state.Tx) error {
	for range a.drops {
		id, ok, err := tx.NextToDrop(a.queue.Name)
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
