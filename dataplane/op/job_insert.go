package op

import (
	"fmt"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// create creates a job. If another job holds the new job's key, create does to the holder what an enqueue
// would. CreateJobs uses it for jobs that follow from other jobs or from a schedule. No admission limits
// apply, because those jobs must be created whatever limits their queue has for enqueues.
func (nj *NewJob) create(tx *state.Tx, id []byte, batch *job.Membership) error {
	m, err := (&keyMatcher{tx: tx}).match(id, nj)
	if err != nil {
		return err
	}
	_, err = nj.put(tx, id, m, batch)
	return err
}

// put creates the job if m names no holder of its key. If m names a holder, put postpones it (debounce key)
// or adds a DUPLICATE event of it to the feed (unique key). put returns the new job or the holder.
func (nj *NewJob) put(tx *state.Tx, id []byte, m keyMatch, batch *job.Membership) (*job.Job, error) {
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

// make stores a new job and its documents, and creates its queue if needed, even beyond job.MaxQueues. It
// must not refuse the queue of an admitted enqueue: the enqueue may first drop a job to make room, and the
// next jobs of that job's chain or batch may take the last free queues.
func (nj *NewJob) make(tx *state.Tx, id []byte, batch *job.Membership) (*job.Job, error) {
	tx.AdmitQueue(nj.Queue)
	first, event := nj.initialState(tx.ClockNs())
	t := nj.resolveDefaults(tx.Queue(nj.Queue).GetDefaults())
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
		if t.expireAfterMs != nj.Options.GetExpireAfterMs() { // the default of its queue
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

// initialState returns the first state of a job that is created at clockNs, and its event. A job with
// dependencies always begins scheduled, even if all of them have completed, so that there is only one way in
// which a job learns of its dependencies, and a repeat can answer without looking at them again.
func (nj *NewJob) initialState(clockNs int64) (job.State, state.EventType) {
	on, event := job.OnEnqueue, state.EventType_EVENT_ENQUEUED
	if nj.dueNs(clockNs) > clockNs || len(nj.DependsOn) > 0 {
		on, event = job.OnSchedule, state.EventType_EVENT_SCHEDULED
	}
	first, _ := job.Transition(job.State_STATE_UNSPECIFIED, on)
	return first, event
}

// dueNs returns the due time of a job that is created at clockNs. A time that is not after clockNs means at
// once.
func (nj *NewJob) dueNs(clockNs int64) int64 {
	if nj.Options.GetDebounceKey() != "" {
		return clockNs + nj.Options.GetDebounceMs()*int64(time.Millisecond)
	}
	return nj.ScheduledNs
}
