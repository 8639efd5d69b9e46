package op

import (
	"cmp"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// Ack ends attempts with success, each item on its own: it completes jobs, or ends an
// iteration of an agent's (see iterate.go). An item's refusal is NOT_FOUND,
// LEASE_LOST, STATE_CONFLICT,
// PAYLOAD_TOO_LARGE where too much would be kept of its iterations, or OVERLOADED where
// too much follows from the jobs that end in one entry. A usage report is never a reason. A repeated ack, of the lease
// that it ended, is done again without changing anything: of a job that completed, and
// of one that went on until that is fetched again.

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
			item.check(&p, i)
		}
	}
	p.whole(o)
	return p.err()
}

// Apply ends the attempts.
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

// didNothing says that every item has to be tried again, or to be checked first.
func (r *AckResult) didNothing() bool {
	for _, item := range r.Items {
		if code := api.Code(item.GetCode()); code != api.Overloaded && code != ResultUnchecked {
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
	if j.State == job.Completed && i.repeats(j) || i.suspends(j) {
		return doneWith(i.Usage.Fault()), nil
	}
	to, refused := i.GetProof().claim(j, i.event())
	if refused != nil {
		return cmp.Or(i.asksAgain(j), refused), nil
	}
	if refused := crowded(tx, j); refused != nil {
		return refused, nil
	}
	if asked := i.asksForCheck(j); asked != nil {
		return asked, nil
	}
	usage := rate(tx, j, i.Usage)
	var it *job.Iteration
	if i.iterates(j) {
		if it, refused, err = i.newIteration(tx, j); err != nil || refused != nil {
			return refused, err
		}
	}
	if refused, err := callTools(tx, j, i); err != nil || refused != nil {
		return refused, err
	}
	if err := report(tx, j, usage, state.UsagePhase_USAGE_PHASE_ACK); err != nil {
		return nil, err
	}
	if err := i.putResult(tx, j); err != nil {
		return nil, err
	}
	saved, err := putBlob(tx, j, job.Checkpoint, i.Checkpoint)
	if err != nil {
		return nil, err
	}
	if it != nil {
		if err := keepIteration(tx, j, it); err != nil {
			return nil, err
		}
	}
	if err := release(tx, j, true); err != nil {
		return nil, err
	}
	var events []state.EventType
	if saved {
		events = append(make([]state.EventType, 0, 2), state.EventType_EVENT_CHECKPOINTED)
	}
	answer := doneWith(usage.rejected())
	if i.goesOn() {
		return answer, i.goOn(tx, j, events...)
	}
	j.State = to
	j.CompletedNs = tx.ClockNs()
	return answer, settle(tx, j, settlement{result: i.Result, exit: i.ExitChain}, append(events, state.EventType_EVENT_COMPLETED)...)
}

// putResult keeps what the attempt has come to: of a job that ends or waits for a
// person, who looks at it. One that an earlier iteration left is not that of the end.
func (i *AckItem) putResult(tx *state.Tx, j *job.Job) error {
	if i.AgentStatus == job.Continue {
		return nil
	}
	saved, err := putBlob(tx, j, job.Result, i.Result)
	if saved || err != nil {
		return err
	}
	return tx.DeleteBlob(j, job.Result)
}

// repeats says whether an ack of a completed job is the one that completed it,
// as far as can be known: without a token any ack is taken for it.
func (i *AckItem) repeats(j *job.Job) bool {
	token := i.GetProof().GetToken()
	return len(token) == 0 || job.ProvesLease(j, token, "")
}
