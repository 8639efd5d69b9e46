package op

import (
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// Ack completes jobs, each item on its own. An item's refusal is NOT_FOUND,
// LEASE_LOST, STATE_CONFLICT, VALIDATION_ERROR where the job's usage would overflow,
// or OVERLOADED where too much follows from the jobs that end in one entry. A repeated ack of a job that the same lease completed is done again
// without changing anything.

// Number is Ack's number in the log.
func (*Ack) Number() entry.Number { return numAck }

// Class is Ack's place among waiting proposals.
func (*Ack) Class() pipeline.Class { return table[numAck].Class }

// Validate refuses what no state could accept.
func (o *Ack) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.length("items", len(o.Items), job.MaxAckItems)
	if len(o.Items) <= job.MaxAckItems {
		for i, item := range o.Items {
			item.GetProof().check(&p, i)
			p.blob("items", i, "result", item.GetResult(), job.MaxResult)
			p.blob("items", i, "checkpoint", item.GetCheckpoint(), job.MaxCheckpoint)
			p.item("items", i, "usage", job.CheckUsage(item.GetUsage())...)
		}
	}
	p.whole(o)
	return p.err()
}

// Apply completes the jobs.
func (o *Ack) Apply(tx *state.Tx) (*AckResult, error) {
	result := &AckResult{Items: make([]*Refusal, len(o.Items))}
	done := &Refusal{}
	for i, item := range o.Items {
		refused, err := item.apply(tx)
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		if refused == nil {
			refused = done
		}
		result.Items[i] = refused
	}
	return result, nil
}

// didNothing says that every item has to be tried again.
func (r *AckResult) didNothing() bool {
	for _, item := range r.Items {
		if api.Code(item.GetCode()) != api.Overloaded {
			return false
		}
	}
	return true
}

func (i *AckItem) apply(tx *state.Tx) (*Refusal, error) {
	j, refused, err := i.GetProof().job(tx)
	if err != nil || refused != nil {
		return refused, err
	}
	if j.State == job.Completed && i.repeats(j) {
		return nil, nil
	}
	to, refused := i.GetProof().claim(j, job.OnAck)
	if refused != nil {
		return refused, nil
	}
	if refused := crowded(tx, j); refused != nil {
		return refused, nil
	}
	usage, err := j.Usage.Add(i.Usage)
	if err != nil {
		return refuse(api.ValidationError, "job %s: %v", job.ID(j.Id), err), nil
	}
	j.State = to
	j.CompletedNs = tx.ClockNs()
	if err := report(tx, j, usage, i.Usage); err != nil {
		return nil, err
	}
	if _, err := putBlob(tx, j, job.Result, i.Result); err != nil {
		return nil, err
	}
	saved, err := putBlob(tx, j, job.Checkpoint, i.Checkpoint)
	if err != nil {
		return nil, err
	}
	how := settlement{result: i.Result, exit: i.ExitChain}
	if saved {
		return nil, settle(tx, j, how, state.EventType_EVENT_CHECKPOINTED, state.EventType_EVENT_COMPLETED)
	}
	return nil, settle(tx, j, how, state.EventType_EVENT_COMPLETED)
}

// repeats says whether an ack of a completed job is the one that completed it,
// as far as can be known: without a token any ack is taken for it.
func (i *AckItem) repeats(j *job.Job) bool {
	token := i.GetProof().GetToken()
	return len(token) == 0 || job.ProvesLease(j, token, "")
}
