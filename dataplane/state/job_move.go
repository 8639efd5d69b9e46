package state

import (
	"errors"
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
)

// MoveJob moves a job into another queue of the shard. The entry must have read the job and not changed it
// since its last put, and the job must not be active. The queue is created if necessary; the op must have
// checked CanAddQueues. The job keeps its number, so if it is ready it precedes the jobs of its priority that
// were created after it. The new queue counts it as enqueued. The old queue keeps its totals; if the job has
// settled, the new queue does not count its outcome. The job leaves its gate, and gives up a unique or
// debounce key that another job holds in the new queue.
func (tx *Tx) MoveJob(j *job.Job, queue string) error {
	if err := tx.moveJob(j, queue); err != nil {
		return tx.fail(fmt.Errorf("move job %x from queue %q to %q: %w", j.Id, j.Queue, queue, err))
	}
	return nil
}

func (tx *Tx) moveJob(j *job.Job, queue string) error {
	h, err := tx.movable(j)
	if err != nil {
		return err
	}
	from := j.Queue
	if err := tx.withdraw(h); err != nil {
		return err
	}
	j.Queue = queue
	if err := tx.place(h, tx.ensure(queue)); err != nil {
		return err
	}
	tx.event(EventType_EVENT_MOVED, queue, j)
	tx.feed.Events[len(tx.feed.Events)-1].FromQueue = from
	return tx.remember(h, EventType_EVENT_MOVED)
}

// ForwardJob removes a job with all its records and leaves a Forward to its new shard. The entry must have
// read the job and not changed it since its last put; the op takes the documents with Parcel before. The job
// must not be active, must neither wait for other jobs nor be waited for, and must have no iterations and no
// scores, because none of these move. ForwardJob gives j its new queue and move number. From then on the
// caller owns j and sends it.
func (tx *Tx) ForwardJob(j *job.Job, shard uint32, queue string) error {
	if err := tx.forwardJob(j, shard, queue); err != nil {
		return tx.fail(fmt.Errorf("forward job %x from queue %q to shard %d: %w", j.Id, j.Queue, shard, err))
	}
	return nil
}

func (tx *Tx) forwardJob(j *job.Job, shard uint32, queue string) error {
	h, err := tx.movable(j)
	if err == nil && (j.Detail.GetIterationsKept() > 0 || j.Detail.GetScores() > 0) {
		err = errors.New("it has iterations or scores, which stay on their shard")
	}
	if err == nil {
		err = tx.readAttempts(h, j)
	}
	if err == nil {
		err = tx.withdraw(h)
	}
	if err == nil {
		err = tx.removeDocuments(h)
	}
	if err == nil {
		err = tx.putForward(h, &Forward{
			Shard: shard, ClockNs: tx.head.ClockNs, Move: j.Moves + 1, Queue: queue, CreatedNs: j.CreatedNs,
		})
	}
	if err != nil {
		return err
	}
	tx.event(EventType_EVENT_LEFT, j.Queue, j)
	h.job, h.queue = nil, nil
	j.Queue, j.Moves, j.Number = queue, j.Moves+1, 0
	return nil
}

// removeDocuments deletes the blobs and errors of a job.
func (tx *Tx) removeDocuments(h *entryJob) error {
	for kind := range job.BlobKinds {
		if h.job.Blobs&(1<<kind) == 0 {
			continue
		}
		if err := tx.deleteBlob(h.id, kind); err != nil {
			return err
		}
	}
	return tx.removeErrors(h)
}

// removeErrors deletes the errors of a job. The caller must have called readAttempts.
func (tx *Tx) removeErrors(h *entryJob) error {
	for _, attempt := range h.attempts {
		tx.key = appendErrorKey(tx.key[:0], h.id, attempt)
		if err := tx.batch.Delete(tx.key, nil); err != nil {
			return err
		}
	}
	h.attempts, h.attemptsRead = nil, true
	return nil
}

// AdmitJob stores a job that comes from another shard under the next number of this shard, in the job's
// queue. No job of this shard may have its id. The queue is created if necessary, even beyond the maximum
// number of queues: the job exists nowhere else any more, so one queue too many is better than a lost job.
// AdmitJob removes a Forward left by an earlier visit. The caller must have put the job's blobs and errors
// before. The Tx owns the job from then on.
func (tx *Tx) AdmitJob(j *job.Job) error {
	if err := tx.admitJob(j); err != nil {
		return tx.fail(fmt.Errorf("admit job %x into queue %q: %w", j.Id, j.Queue, err))
	}
	return nil
}

func (tx *Tx) admitJob(j *job.Job) error {
	h, err := tx.newEntryJob(j)
	if err != nil {
		return err
	}
	if err := tx.putForward(h, nil); err != nil {
		return err
	}
	tx.number(j)
	h.job = j
	tx.AdmitQueue(j.Queue)
	if err := tx.place(h, tx.ensure(j.Queue)); err != nil {
		return err
	}
	tx.event(EventType_EVENT_ARRIVED, j.Queue, j)
	return tx.remember(h, EventType_EVENT_ARRIVED)
}

// movable returns the entry's copy of a job. It fails if the job is active, or if a change that was not put
// alters the job's index.
func (tx *Tx) movable(j *job.Job) (*entryJob, error) {
	id, err := job.IDFromBytes(j.Id)
	if err != nil {
		return nil, err
	}
	h := tx.jobs[id]
	if h == nil || h.job != j {
		return nil, errors.New("the entry has not read it")
	}
	if now, err := derive(j); err != nil || now != h.now {
		return nil, fmt.Errorf("it was changed and not put (%v)", err)
	}
	if j.State == job.Active {
		return nil, errors.New("it is active")
	}
	return h, nil
}

// withdraw removes a job from its queue's counts and ready jobs in memory, and from its lane, gate and locks.
func (tx *Tx) withdraw(h *entryJob) error {
	q, state := h.queue, h.now.state
	tx.touch(q)
	if q.rec.InState[state] == 0 {
		return fmt.Errorf("queue %q counts no %s jobs and one of them goes", q.rec.Name, state.Word())
	}
	q.rec.InState[state]--
	return tx.rederive(h, index{})
}

// place reverses withdraw: it adds a job that is in no queue to a queue. It counts the job as enqueued.
func (tx *Tx) place(h *entryJob, q *queue) error {
	if err := tx.dropTakenLocks(h.job); err != nil {
		return err
	}
	if h.job.Detail.GetGate() != job.Gate_GATE_NONE {
		// In the new queue, the job's next fetch decides whether a gate keeps it back.
		h.job.Detail.Gate, h.job.Detail.GateName = job.Gate_GATE_NONE, ""
	}
	to, err := derive(h.job)
	if err != nil {
		return err
	}
	tx.touch(q)
	q.rec.InState[to.state]++
	q.rec.Enqueued++
	if tx.meters() {
		q.metered().Enqueued++ // a usage row has the job as one of its first queue
	}
	h.queue, h.now = q, index{}
	return tx.rederive(h, to)
}
