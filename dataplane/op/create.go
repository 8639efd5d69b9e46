package op

import (
	"fmt"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// create makes a job, or does to the one that has its key what an enqueue would;
// nothing admits it. Who makes jobs that follow from others calls this: they are
// owed, whatever their queue says of enqueues.
func (nj *NewJob) create(tx *state.Tx, id []byte, batch *job.Membership) error {
	m, err := (&meeter{tx: tx}).meet(id, nj)
	if err != nil {
		return err
	}
	_, err = nj.put(tx, id, m, batch)
	return err
}

// put makes the job, or does what its key asks for to the one it met. It returns the
// job that stands there then.
func (nj *NewJob) put(tx *state.Tx, id []byte, m meeting, batch *job.Membership) (*job.Job, error) {
	if m.found == Found_FOUND_NONE {
		return nj.make(tx, id, batch)
	}
	j, err := tx.Job(m.holder)
	if err != nil {
		return nil, err
	}
	if j == nil {
		return nil, fmt.Errorf("job %s has a key and is not there", m.holder)
	}
	if m.found == Found_FOUND_DEBOUNCED {
		return j, nj.postpone(tx, j)
	}
	tx.AddEvent(state.EventType_EVENT_DUPLICATE, j)
	return j, nil
}

// make stores a new job and its documents. Its queue is made where there is none,
// and refused no more: what an enqueue drops to make room has its chain and its batch
// go on, in new queues too, and they may be those it was admitted to.
func (nj *NewJob) make(tx *state.Tx, id []byte, batch *job.Membership) (*job.Job, error) {
	tx.AdmitQueue(nj.Queue)
	first, event := nj.birth(tx.ClockNs())
	t := nj.terms(tx.Queue(nj.Queue).GetDefaults())
	j := &job.Job{
		Id:          id,
		Queue:       nj.Queue,
		State:       first,
		Priority:    t.priority,
		Retry:       t.retry,
		Tags:        nj.Tags,
		Headers:     nj.Headers,
		CreatedNs:   tx.ClockNs(),
		ScheduledNs: nj.dueNs(tx.ClockNs()),
		Batch:       memberOf(batch),
		Origin:      nj.Origin,
		Options:     nj.Options,

		FairnessKey:    nj.FairnessKey,
		FairnessWeight: nj.FairnessWeight,
	}
	if t.expireAfterMs > 0 {
		if t.expireAfterMs != nj.Options.GetExpireAfterMs() { // its queue said so
			j.Options = nj.Options.Copy()
			j.Opt().ExpireAfterMs = t.expireAfterMs
		}
		j.Details().ExpireNs = tx.ClockNs() + t.expireAfterMs*int64(time.Millisecond)
	}
	if err := nj.takeUnique(tx, j); err != nil {
		return nil, err
	}
	if err := nj.startChain(tx, j); err != nil {
		return nil, err
	}
	nj.block(j)
	if _, err := putBlob(tx, j, job.Payload, nj.Payload); err != nil {
		return nil, err
	}
	if _, err := putBlob(tx, j, job.Checkpoint, nj.Checkpoint); err != nil {
		return nil, err
	}
	if _, err := putBlob(tx, j, job.Previous, nj.Previous); err != nil {
		return nil, err
	}
	if _, err := putBlob(tx, j, job.ResultSchema, nj.ResultSchema); err != nil {
		return nil, err
	}
	if err := tx.CreateJob(j, event); err != nil {
		return nil, err
	}
	return j, nj.watch(tx, id)
}

// birth is the state a job begins in at clockNs, and the event of it. One that
// depends on others waits for them, also where they have all completed: that is
// found out in one way only, and a repeat can answer without asking again.
func (nj *NewJob) birth(clockNs int64) (job.State, state.EventType) {
	on, event := job.OnEnqueue, state.EventType_EVENT_ENQUEUED
	if nj.dueNs(clockNs) > clockNs || len(nj.DependsOn) > 0 {
		on, event = job.OnSchedule, state.EventType_EVENT_SCHEDULED
	}
	first, _ := job.Next(job.State_STATE_UNSPECIFIED, on)
	return first, event
}

// dueNs is when a job is due that is made at clockNs.
func (nj *NewJob) dueNs(clockNs int64) int64 {
	if nj.Options.GetDebounceKey() != "" {
		return clockNs + nj.Options.GetDebounceMs()*int64(time.Millisecond)
	}
	return nj.ScheduledNs
}
