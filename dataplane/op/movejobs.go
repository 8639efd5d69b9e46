package op

import (
	"fmt"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// MoveJobs moves jobs to another queue, each item on its own. A job moves in every state but active and
// cancelled. It keeps its state, attempts and history, but waits at no gate any more, and gives up a unique
// or debounce key that another job holds in the new queue. A job cannot leave its shard while it waits for
// others or others wait for it, because the shards address each other's jobs by shard and id. A job cannot
// leave its shard while it has iterations or scores.
//
// An item is refused
//   - with NOT_FOUND if the job is not on this shard and has not left for the op's queue (see state.Forward),
//   - with STATE_CONFLICT if the job cannot move,
//   - with PAYLOAD_TOO_LARGE if no op could carry the job to the other shard,
//   - with OVERLOADED if too much is on its way to the other shard.
//
// A job that already is in the queue, in whatever state, or has left this shard for it counts as done. A
// repeat therefore does no harm unless somebody has moved the job elsewhere in between. The proposer sends
// the op to the shard that has the job; while a job is on its way, no shard has it.
//
// With reset_attempts a job gets all its attempts anew, as by a requeue: its earlier attempts stay in its
// history, and the numbers continue. With drop_priority it takes the default priority of its new queue. The
// shard of that queue decides the priority, because only that shard knows the queue's settings.
//
// Within a shard a job keeps its number, and so its age: it precedes the jobs of its priority that were
// created after it. A job for another shard leaves at once, in an Arrive, and gets the next number there,
// because numbers of two shards cannot be compared.
//
// The whole op is refused with CONFLICT if the queue belongs to this shard and is being deleted, or would be
// new while the number of queues is at its limit. It is refused with OVERLOADED if the queue belongs to
// another shard and too much is on its way there.

// These limits apply to jobs that leave for another shard. Once one MoveJobs has sent MaxMoveBytes, its
// remaining jobs are refused with OVERLOADED. A job travels whole, so a job of more than MaxArriveBytes
// cannot leave. A Deliver with one job of that size still fits into an op.
const (
	MaxMoveBytes   = 16 << 20
	MaxArriveBytes = job.MaxOpBytes - 64<<10
)

// Validate refuses an op that no state could accept.
func (o *MoveJobs) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.ids("job_ids", o.JobIds)
	p.add("queue", job.CheckStoredQueueName(o.Queue))
	p.add("shard", checkShard(o.Shard))
	return p.err()
}

func checkShard(shard uint32) error {
	if shard >= job.Slots {
		return fmt.Errorf("is %d; shards are below %d", shard, job.Slots)
	}
	return nil
}

// Apply moves the jobs.
func (o *MoveJobs) Apply(tx *state.Tx) (*MoveJobsResult, error) {
	if err := o.admit(tx); err != nil {
		return nil, err
	}
	m := move{op: o, tx: tx}
	result := &MoveJobsResult{Items: make([]*Refusal, len(o.JobIds))}
	for i, id := range o.JobIds {
		refused, err := m.job(id)
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		if refused == nil {
			refused = &Refusal{}
		}
		result.Items[i] = refused
	}
	return result, nil
}

// didNothing reports whether every item was refused.
func (r *MoveJobsResult) didNothing() bool {
	for _, refused := range r.Items {
		if refused.GetCode() == "" {
			return false
		}
	}
	return true
}

// admit refuses the op with CONFLICT if the queue is being deleted or would be one too many on this shard, or
// with OVERLOADED if the outbox to the queue's shard is full.
func (o *MoveJobs) admit(tx *state.Tx) error {
	switch {
	case o.Shard != tx.Shard() && !tx.CanSend(o.Shard):
		refusal := api.Errorf(api.Overloaded, "the queue of jobs that move to the shard of queue %s is full: try again later", o.Queue)
		refusal.RetryAfter = time.Second
		return refusal
	case o.Shard != tx.Shard():
		return nil // no shard refuses an Arrive: a queue that is being deleted takes its new jobs with it
	case tx.Queue(o.Queue) == nil:
		return admitQueues(tx, 1)
	case tx.Queue(o.Queue).Deleting:
		return beingDeleted(o.Queue)
	}
	return nil
}

// move is one MoveJobs being applied.
type move struct {
	op   *MoveJobs
	tx   *state.Tx
	sent int // bytes
}

func (m *move) job(id []byte) (*Refusal, error) {
	j, err := jobOf(m.tx, id)
	if err != nil {
		return nil, err
	}
	here := m.op.Shard == m.tx.Shard()
	switch {
	case j == nil:
		return m.gone(job.ID(id))
	case here && j.Queue == m.op.Queue:
		return nil, nil
	case !mayMove(j.State):
		return refuse(api.StateConflict, "job %s is %s: it cannot be moved", job.ID(id), j.State.Word()), nil
	case here:
		return nil, m.here(j)
	case j.Detail.GetIterationsKept() > 0 || j.Detail.GetScores() > 0:
		return refuse(api.StateConflict, "job %s has iterations or scores, which stay on their shard: it cannot be moved to queue %s, which lies on another", job.ID(id), m.op.Queue), nil
	case tied(j):
		return refuse(api.StateConflict, "job %s waits for other jobs, or they for it: it cannot be moved to queue %s, which lies on another shard", job.ID(id), m.op.Queue), nil
	}
	return m.send(j)
}

// here moves a job to a queue of the same shard.
func (m *move) here(j *job.Job) error {
	if m.op.DropPriority {
		if priority := usualPriority(m.tx, m.op.Queue); priority != j.Priority {
			j.Priority = priority
			if err := m.tx.PutJob(j, state.EventType_EVENT_PRIORITY_CHANGED); err != nil {
				return err
			}
		}
	}
	if err := m.renew(j); err != nil {
		return err
	}
	return m.tx.MoveJob(j, m.op.Queue)
}

// renew grants a job all its attempts anew if the op asks for it. The history stays.
func (m *move) renew(j *job.Job) error {
	if !m.op.ResetAttempts {
		return nil
	}
	if err := goOn(m.tx, j); err != nil {
		return err
	}
	return m.tx.PutJob(j)
}

// usualPriority returns the priority of a queue's jobs that name none.
func usualPriority(tx *state.Tx, queue string) uint32 {
	if d := tx.Queue(queue).GetDefaults(); d != nil && d.Priority != nil {
		return *d.Priority
	}
	return job.Normal
}

// mayMove reports whether a job in a state can move to another queue.
func mayMove(s job.State) bool {
	switch s {
	case job.Pending, job.Scheduled, job.Retrying, job.Held, job.Completed, job.Dead:
		return true
	}
	return false
}

// gone answers for a job that is not on this shard. The item counts as done if the job left for the op's queue.
func (m *move) gone(id job.ID) (*Refusal, error) {
	f, err := m.tx.Forwarded(id)
	switch {
	case err != nil:
		return nil, err
	case f == nil:
		return refuse(api.NotFound, "there is no job %s", id), nil
	case f.Shard == m.op.Shard && f.Queue == m.op.Queue:
		return nil, nil
	}
	return refuse(api.NotFound, "job %s is not here: it has gone to shard %d", id, f.Shard), nil
}

// send makes a job leave for the queue's shard, or refuses it with OVERLOADED or PAYLOAD_TOO_LARGE.
func (m *move) send(j *job.Job) (*Refusal, error) {
	id := job.ID(j.Id)
	if m.sent >= MaxMoveBytes || !m.tx.CanSend(m.op.Shard) {
		return refuse(api.Overloaded, "job %s cannot move yet: the queue of messages to the shard of queue %s is full; move it again later", id, m.op.Queue), nil
	}
	documents, err := m.tx.Parcel(j)
	if err != nil {
		return nil, err
	}
	arrive := &Arrive{Job: j, Errors: documents.Errors, DropPriority: m.op.DropPriority}
	for kind, b := range documents.Blobs {
		if b != nil {
			arrive.Blobs = append(arrive.Blobs, &KindBlob{Kind: uint32(kind), Blob: b})
		}
	}
	size := arrive.SizeVT()
	if size > MaxArriveBytes {
		return refuse(api.PayloadTooLarge, "job %s takes %d bytes with its documents; at most %d can go to the shard of queue %s", id, size, MaxArriveBytes, m.op.Queue), nil
	}
	m.sent += size
	if err := m.renew(j); err != nil {
		return nil, err
	}
	if err := m.tx.ForwardJob(j, m.op.Shard, m.op.Queue); err != nil {
		return nil, err
	}
	return nil, send(m.tx, m.op.Shard, arrive)
}
