package op

import (
	"errors"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// Enqueue creates jobs: all of them or none. The proposer gives each its id in
// meta.ids and fills every default in. Queues are created on demand. A repeated
// Enqueue, known by its ids, answers as the first did and changes nothing.

// Number is Enqueue's number in the log.
func (*Enqueue) Number() entry.Number { return numEnqueue }

// Class is Enqueue's place among waiting proposals.
func (*Enqueue) Class() pipeline.Class { return table[numEnqueue].Class }

// Validate refuses what no state could accept.
func (o *Enqueue) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.length("jobs", len(o.Jobs), job.MaxEnqueueJobs)
	if ids := o.GetMeta().GetIds(); len(ids) != len(o.Jobs) {
		p.add("meta.ids", fmt.Errorf("has %d ids for %d jobs", len(ids), len(o.Jobs)))
	} else if len(o.Jobs) <= job.MaxEnqueueJobs {
		checkNewIDs(&p, ids, o.Jobs)
		for i, nj := range o.Jobs {
			nj.check(&p, i)
		}
	}
	p.whole(o)
	return p.err()
}

// checkNewIDs checks that each job has an id of its own, born in its queue.
func checkNewIDs(p *problems, ids [][]byte, jobs []*NewJob) {
	seen := make(map[job.ID]struct{}, len(ids))
	for i, b := range ids {
		id, err := job.IDFromBytes(b)
		if err != nil {
			p.item("meta.ids", i, "", err)
			continue
		}
		if _, twice := seen[id]; twice {
			p.item("meta.ids", i, "", fmt.Errorf("%s is there twice", id))
		}
		seen[id] = struct{}{}
		if id.Slot() != job.SlotOf(jobs[i].GetQueue()) {
			p.item("meta.ids", i, "", fmt.Errorf("%s was not made for queue %q", id, jobs[i].GetQueue()))
		}
	}
}

func (nj *NewJob) check(p *problems, i int) {
	p.item("jobs", i, "queue", job.CheckQueueName(nj.GetQueue()))
	if nj.GetPayload() == nil {
		p.item("jobs", i, "payload", errors.New("is missing"))
	}
	// How large a payload may be is a setting of the server; here stands the most
	// it may say.
	p.blob("jobs", i, "payload", nj.GetPayload(), job.MaxPayloadFlag)
	p.blob("jobs", i, "checkpoint", nj.GetCheckpoint(), job.MaxCheckpoint)
	if nj.GetPriority() >= job.Priorities {
		p.item("jobs", i, "priority", fmt.Errorf("is %d; use critical (0), high (1) or normal (2)", nj.GetPriority()))
	}
	p.item("jobs", i, "retry", job.CheckRetry(nj.GetRetry())...)
	p.item("jobs", i, "tags", job.CheckTags(nj.GetTags())...)
	p.item("jobs", i, "headers", job.CheckHeaders(nj.GetHeaders())...)
	if nj.GetScheduledNs() < 0 {
		p.item("jobs", i, "scheduled_at", errors.New("lies before 1970"))
	}
}

// Apply creates the jobs. It refuses a due time too far ahead and a queue too
// many.
func (o *Enqueue) Apply(tx *state.Tx) (*EnqueueResult, error) {
	earlier, err := o.earlier(tx)
	if err != nil || earlier != nil {
		return earlier, err
	}
	var p problems
	for i, nj := range o.Jobs {
		p.item("jobs", i, "scheduled_at", job.CheckSchedule(nj.ScheduledNs, tx.ClockNs()))
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	if err := admitQueues(tx, o.newQueues(tx)); err != nil {
		return nil, err
	}
	for i, nj := range o.Jobs {
		if err := nj.create(tx, o.Meta.Ids[i]); err != nil {
			return nil, err
		}
	}
	return o.result(tx.ClockNs()), nil
}

// earlier is the answer of this op's own earlier effect: nil when none of its
// jobs is or was here. Jobs may be gone since; one that is left tells when it was,
// as does one that has gone to another shard.
func (o *Enqueue) earlier(tx *state.Tx) (*EnqueueResult, error) {
	for _, b := range o.GetMeta().GetIds() {
		j, err := jobOf(tx, b)
		if err != nil {
			return nil, err
		}
		if j != nil {
			return o.result(j.CreatedNs), nil
		}
		gone, err := tx.Forwarded(job.ID(b))
		if err != nil {
			return nil, err
		}
		if gone != nil {
			return o.result(gone.CreatedNs), nil
		}
	}
	return nil, nil
}

// result is what Enqueue answers when it applies at clockNs.
func (o *Enqueue) result(clockNs int64) *EnqueueResult {
	jobs := make([]Enqueued, len(o.Jobs))
	r := &EnqueueResult{Jobs: make([]*Enqueued, len(o.Jobs))}
	for i, nj := range o.Jobs {
		jobs[i].Id = o.Meta.Ids[i]
		jobs[i].State, _ = nj.birth(clockNs)
		r.Jobs[i] = &jobs[i]
	}
	return r
}

// birth is the state a job begins in at clockNs, and the event of it.
func (nj *NewJob) birth(clockNs int64) (job.State, state.EventType) {
	on, event := job.OnEnqueue, state.EventType_EVENT_ENQUEUED
	if nj.ScheduledNs > clockNs {
		on, event = job.OnSchedule, state.EventType_EVENT_SCHEDULED
	}
	first, _ := job.Next(job.State_STATE_UNSPECIFIED, on)
	return first, event
}

// newQueues is how many queues the op would create.
func (o *Enqueue) newQueues(tx *state.Tx) int {
	var fresh map[string]struct{}
	last := ""
	for _, nj := range o.Jobs {
		if nj.Queue == last || tx.Queue(nj.Queue) != nil {
			last = nj.Queue
			continue
		}
		last = nj.Queue
		if fresh == nil {
			fresh = map[string]struct{}{}
		}
		fresh[nj.Queue] = struct{}{}
	}
	return len(fresh)
}

// admitQueues refuses n new queues where they do not fit. It is a conflict with
// what exists: waiting does not help, as it would with QUEUE_FULL.
func admitQueues(tx *state.Tx, n int) error {
	if n == 0 || tx.CanAddQueues(n) {
		return nil
	}
	return api.Errorf(api.Conflict, "there are as many queues as there may be (%d); use one of them, or remove one first", job.MaxQueues)
}

// create stores one job and its documents.
func (nj *NewJob) create(tx *state.Tx, id []byte) error {
	first, event := nj.birth(tx.ClockNs())
	j := &job.Job{
		Id:          id,
		Queue:       nj.Queue,
		State:       first,
		Priority:    nj.Priority,
		Retry:       nj.Retry,
		Tags:        nj.Tags,
		Headers:     nj.Headers,
		CreatedNs:   tx.ClockNs(),
		ScheduledNs: nj.ScheduledNs,
	}
	if _, err := putBlob(tx, j, job.Payload, nj.Payload); err != nil {
		return err
	}
	if _, err := putBlob(tx, j, job.Checkpoint, nj.Checkpoint); err != nil {
		return err
	}
	return tx.CreateJob(j, event)
}
