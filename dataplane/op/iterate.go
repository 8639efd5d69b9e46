package op

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// An agent's job runs in iterations. Each ends with an ack, which says whether the job
// goes on with the next one, is done, or is held for a person to say; what was left
// and used by then is kept as an iteration record. A job becomes an agent's by its
// options, or by an ack that speaks of iterations: it has no limits then, but how many
// iterations are kept of any job.

// check looks at what an item says of an iteration.
func (i *AckItem) check(p *problems, at int) {
	p.blob("items", at, "trace", i.GetTrace(), job.MaxTrace)
	p.item("items", at, "hold_reason", job.CheckText(i.GetHoldReason(), job.MaxHoldReason))
	if i.GetHoldReason() != "" && i.GetAgentStatus() != job.Suspend {
		p.item("items", at, "hold_reason", errors.New(`goes with agent_status "hold"`))
	}
	if s := i.GetAgentStatus(); s < 0 || s > job.Suspend {
		p.item("items", at, "agent_status", fmt.Errorf("%d is unknown; use continue, hold or done", s))
	}
	i.checkTools(p, at)
	if i.GetExitChain() && i.goesOn() {
		p.item("items", at, "step_status", errors.New("ends a chain, which a job does that is done; leave it out until then"))
	}
}

// goesOn says whether the job does not end with the ack.
func (i *AckItem) goesOn() bool {
	return i.GetAgentStatus() == job.Continue || i.GetAgentStatus() == job.Suspend
}

// event is what the ack does to the job.
func (i *AckItem) event() job.Event {
	switch i.AgentStatus {
	case job.Continue:
		return job.OnContinue
	case job.Suspend:
		return job.OnSuspend
	}
	return job.OnAck
}

// iterates says whether the ack ends an iteration.
func (i *AckItem) iterates(j *job.Job) bool {
	return i.AgentStatus != 0 || i.Trace != nil || j.Options.GetAgent() != nil || j.Detail.GetIteration() > 0
}

// suspends says whether an ack ended j's last attempt and left the job to go on, and
// the item is that ack once more. What proves nothing might speak of any attempt.
func (i *AckItem) suspends(j *job.Job) bool {
	proof := i.GetProof()
	return j.State != job.Active && j.Lease.GetAcked() && (len(proof.GetToken()) > 0 || proof.GetWorkerId() != "") &&
		job.ProvesLease(j, proof.GetToken(), proof.GetWorkerId())
}

// repeats says whether each item that does not end its job tells its attempt from the
// next: that may be leased by the time the op comes again.
func (o *Ack) repeats() bool {
	for _, item := range o.Items {
		if item.goesOn() && len(item.GetProof().GetToken()) == 0 {
			return false
		}
	}
	return true
}

// newIteration is the record of the iteration that the ack ends, but for what it has
// used; refused where it may not be kept. Of a job that is done it does not repeat
// what the job has from then on: a result is never refused for what came before it.
func (i *AckItem) newIteration(tx *state.Tx, j *job.Job) (*job.Iteration, *Refusal, error) {
	d := j.Detail
	it := &job.Iteration{
		Number:     d.GetIteration() + 1,
		Status:     cmp.Or(i.AgentStatus, job.Done),
		HoldReason: i.HoldReason,
		Attempt:    j.Attempt,
		WorkerId:   j.Lease.GetWorkerId(),
		StartedNs:  j.StartedNs,
		CreatedNs:  tx.ClockNs(),
		Trace:      i.Trace,
	}
	if i.goesOn() {
		it.Checkpoint, it.Result, it.CheckpointIn = i.Checkpoint, i.Result, d.GetCheckpointIn()
		it.ToolCalls = i.calls(j)
		if it.Checkpoint == nil && it.CheckpointIn == 0 {
			var err error // one that came with a heartbeat, or with the job
			if it.Checkpoint, err = tx.Blob(j, job.Checkpoint); err != nil {
				return nil, nil, err
			}
		}
		if it.Checkpoint != nil {
			it.CheckpointIn = it.Number
		}
		if it.Number > job.MaxIterations {
			return nil, refuse(api.StateConflict, "job %s has had %d iterations, as many as a job may: end it, with agent_status done or a fail", job.ID(j.Id), job.MaxIterations), nil
		}
	}
	if n := d.GetIterationBytes() + it.DocumentBytes(); n > job.MaxIterationBytes {
		return nil, refuse(api.PayloadTooLarge, "the checkpoints, traces and results of the iterations of job %s would come to %d bytes, and %d are kept: make them smaller, or ack with agent_status done and without a trace", job.ID(j.Id), n, job.MaxIterationBytes), nil
	}
	return it, nil, nil
}

// keepIteration keeps the record of an iteration, once j's usage has all that it used.
func keepIteration(tx *state.Tx, j *job.Job, it *job.Iteration) error {
	d := j.Details()
	it.Usage = j.Usage.Since(d.UsageBefore)
	it.TotalCostNanoUsd = j.AgentCost()
	d.UsageBefore, d.CheckpointIn, d.CostWaived = j.Usage, it.CheckpointIn, false
	return tx.PutIteration(j, it)
}

// goOn has a job go on whose iteration has ended and is kept: with the next one, as
// soon as it is fetched, or when a person has said so. It keeps its number, and so its
// place among its queue's jobs, and each iteration has all attempts. One that was to be
// cancelled is, now that its worker lets go of it.
func (i *AckItem) goOn(tx *state.Tx, j *job.Job, events ...state.EventType) error {
	j.Lease.Acked, j.Lease.LastRequest = true, nil
	if j.Cancelling {
		return cancelled(tx, j, events...)
	}
	j.AttemptBase = j.Attempt
	if i.AgentStatus == job.Suspend {
		return keep(tx, j, job.OnSuspend, job.Hold_HOLD_AGENT, "", cmp.Or(i.HoldReason, agentReason), events...)
	}
	if hold, why := agentLimit(j); why != "" {
		return keep(tx, j, job.OnSuspend, hold, "", why, events...)
	}
	on := job.OnContinue
	if j.BlockedBy > 0 {
		on = job.OnAwait
		dropDebounce(j)
	}
	to, ok := job.Next(j.State, on)
	if !ok {
		return fmt.Errorf("job %s is %s: it cannot go on", job.ID(j.Id), j.State.Word())
	}
	j.State = to
	j.ScheduledNs = tx.ClockNs()
	return tx.PutJob(j, append(events, state.EventType_EVENT_CONTINUED)...)
}

// dropDebounce has a job that has run give up its debounce key before it is scheduled
// again: the key is for the time before the first attempt, and may be another's by now.
func dropDebounce(j *job.Job) {
	if j.Options.GetDebounceKey() != "" {
		j.Options = j.Options.Copy()
		j.Options.DebounceKey = ""
	}
}
