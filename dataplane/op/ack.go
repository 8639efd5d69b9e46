package op

import (
	"cmp"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// Ack ends attempts with success. Each item completes its job, or ends one iteration of an agent's job (see
// agent_iteration.go). Unless an item is a repeat (see below), it is refused
//   - with NOT_FOUND if the job is not on this shard,
//   - with LEASE_LOST if the item names a lease that is over, or names none after a lease of the job has
//     expired,
//   - with STATE_CONFLICT if the item names no lease and the job is not active, or if the job has had
//     job.MaxIterations iterations and would go on,
//   - with PAYLOAD_TOO_LARGE if the documents of the job's iterations would exceed their bound,
//   - with OVERLOADED if the entry is full and the job belongs to a batch or a chain, or if the outbox to the
//     shard of a called tool is full,
//   - with RESULT_UNCHECKED if the proposer must check the result first (see result_check.go).
//
// A usage report that exceeds a limit is never a reason to refuse the item: the report does not count, and the
// answer says why.
//
// An ack that repeats the ack which ended the last attempt succeeds without changing anything. For a
// completed job, the repeat must have the token of that attempt's lease, or none. For a job that went on, the
// repeat must have that token or, without a token, that lease's worker id, and it counts as a repeat only
// until the next fetch leases the job.

// Validate refuses an op that no state could accept.
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

// didNothing reports whether every item was refused with OVERLOADED or RESULT_UNCHECKED. Such an answer is
// not remembered under an idempotency key, because the client must send the items again, or the proposer must
// first check their results.
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
	to, refused := i.GetProof().transition(j, i.event())
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
	if err := endReservation(tx, j, true); err != nil {
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

// putResult stores the result of an ack that ends the job, or that asks to hold it, so that a person can look
// at the result. If that ack has no result, putResult deletes the result of an earlier iteration, because
// that is not the job's final result. An ack that continues with the next iteration stores no result here.
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

// repeats reports whether the ack of a completed job is the ack that completed it. Without a token this cannot
// be known, so every ack without a token counts as that ack.
func (i *AckItem) repeats(j *job.Job) bool {
	token := i.GetProof().GetToken()
	return len(token) == 0 || job.ProvesLease(j, token, "")
}
