package op

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// An agent's job runs in iterations. Each iteration ends with an ack, which says whether the job goes on with
// the next iteration, is done, or is held for a person. An attempt that fails is retried within its iteration.
// An iteration record keeps the documents and the usage of the iteration. A job becomes an agent's job by its
// options, or by an ack with agent_status or a trace. An agent's job without options for its agent has only
// the limits that hold for all jobs: job.MaxIterations and job.MaxIterationBytes.

// check checks the iteration fields of an item.
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

// goesOn reports whether the worker asks that the job goes on, at once or after a person has approved it.
func (i *AckItem) goesOn() bool {
	return i.GetAgentStatus() == job.Continue || i.GetAgentStatus() == job.Suspend
}

// event returns the lifecycle event of the ack.
func (i *AckItem) event() job.Event {
	switch i.AgentStatus {
	case job.Continue:
		return job.OnContinue
	case job.Suspend:
		return job.OnSuspend
	}
	return job.OnAck
}

// iterates reports whether the ack ends an iteration.
func (i *AckItem) iterates(j *job.Job) bool {
	return i.AgentStatus != 0 || i.Trace != nil || j.Options.GetAgent() != nil || j.Detail.GetIteration() > 0
}

// suspends reports whether the item repeats the ack that ended j's last attempt without completing the job.
// An item with neither a token nor a worker id never does, because it might be about any attempt.
func (i *AckItem) suspends(j *job.Job) bool {
	proof := i.GetProof()
	return j.State != job.Active && j.Lease.GetAcked() && (len(proof.GetToken()) > 0 || proof.GetWorkerId() != "") &&
		job.ProvesLease(j, proof.GetToken(), proof.GetWorkerId())
}

// repeats reports whether each item that does not end its job has a token. Without a token, a repeated item
// cannot be told from an item about the job's next attempt, which may be leased by then.
func (o *Ack) repeats() bool {
	for _, item := range o.Items {
		if item.goesOn() && len(item.GetProof().GetToken()) == 0 {
			return false
		}
	}
	return true
}

// newIteration returns the record of the iteration that the ack ends, without its usage. It refuses an ack
// with STATE_CONFLICT if the job would go on after job.MaxIterations iterations, and with PAYLOAD_TOO_LARGE
// if the documents of all iterations would exceed job.MaxIterationBytes. If the job is done, the record does
// not repeat the checkpoint and the result, because the job has them from now on. A final ack without a trace
// is therefore never refused because of the documents before it.
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
			var err error // the checkpoint that came with a heartbeat, an approval or the job
			if it.Checkpoint, err = tx.Blob(j, job.Checkpoint); err != nil {
				return nil, nil, err
			}
		}
		if it.Checkpoint != nil {
			it.CheckpointIn = it.Number
		}
		if it.Number > job.MaxIterations {
			return nil, refuse(api.StateConflict, "job %s has had %d iterations, the maximum: end it with agent_status done or a fail", job.ID(j.Id), job.MaxIterations), nil
		}
	}
	if n := d.GetIterationBytes() + it.DocumentBytes(); n > job.MaxIterationBytes {
		return nil, refuse(api.PayloadTooLarge, "the checkpoints, traces and results of the iterations of job %s would have %d bytes, and at most %d are stored: make them smaller, or ack with agent_status done and without a trace", job.ID(j.Id), n, job.MaxIterationBytes), nil
	}
	return it, nil, nil
}

// keepIteration stores the record of an iteration. The caller must have added the iteration's usage to
// j.Usage.
func keepIteration(tx *state.Tx, j *job.Job, it *job.Iteration) error {
	d := j.Details()
	it.Usage = j.Usage.Since(d.UsageBefore)
	it.TotalCostNanoUsd = j.AgentCost()
	d.UsageBefore, d.CheckpointIn, d.CostWaived = j.Usage, it.CheckpointIn, false
	return tx.PutIteration(j, it)
}

// goOn moves a job on after the documents of its iteration are stored. The job is pending at once, or after
// the tools that it called have settled. If its agent or a limit holds the job, a person must approve it
// first. The job keeps its number, and so its place among its queue's jobs, and its next iteration gets all
// attempts. A job with a pending cancellation is cancelled, because its worker has ended the attempt.
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
	to, ok := job.Transition(j.State, on)
	if !ok {
		return fmt.Errorf("job %s is %s: it cannot continue", job.ID(j.Id), j.State.Word())
	}
	j.State = to
	j.ScheduledNs = tx.ClockNs()
	return tx.PutJob(j, append(events, state.EventType_EVENT_CONTINUED)...)
}

// dropDebounce removes the debounce key of a job that has run, before the job is scheduled again. The key
// applies only before the first attempt, and another job may hold it by now.
func dropDebounce(j *job.Job) {
	if j.Options.GetDebounceKey() != "" {
		j.Options = j.Options.Copy()
		j.Options.DebounceKey = ""
	}
}
