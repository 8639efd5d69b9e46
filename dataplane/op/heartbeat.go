package op

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// Heartbeat renews leases from the entry's clock and stores the workers' reports, each item on its own. A
// lease is renewed by the length that its fetch asked for, unless the item names another length for this
// renewal. The lease never lasts beyond the iteration_timeout of the job's agent. An item is refused with
// NOT_FOUND if the job is not on this shard. An item that does not prove the job's current lease is refused
// with LEASE_LOST, which tells the worker to stop. If a job is being cancelled, the answer tells its worker,
// and the lease is renewed so that the worker has time to stop. The answer also tells a worker if a budget has no
// room for more cost of its job, or if the job has exceeded the max_cost of its agent.
//
// The usage of a request with an id (meta.request_id) is counted once, because the lease remembers the newest
// request that reported usage. One is enough, because a worker has the answer to one heartbeat of a job before
// it sends the next. A repeat stores the same documents again and renews the lease from the later clock.

// Validate refuses an op that no state could accept.
func (o *Heartbeat) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.length("items", len(o.Items), job.MaxHeartbeatJobs)
	if len(o.Items) <= job.MaxHeartbeatJobs {
		o.checkOnce(&p)
		for i, item := range o.Items {
			item.GetProof().check(&p, i)
			p.blob("items", i, "progress", item.GetProgress(), job.MaxProgress)
			p.blob("items", i, "checkpoint", item.GetCheckpoint(), job.MaxCheckpoint)
			p.item("items", i, "usage", job.CheckUsage(item.GetUsage())...)
			if item.GetLeaseMs() != 0 {
				p.item("items", i, "lease_duration", job.CheckLeaseLength(item.GetLeaseMs()))
			}
		}
	}
	p.whole(o)
	return p.err()
}

// checkOnce checks that no job appears twice in an op with a request id, because the second report would be
// taken for a repeat of the first.
func (o *Heartbeat) checkOnce(p *problems) {
	if len(o.Items) < 2 || len(o.GetMeta().GetRequestId()) == 0 {
		return
	}
	seen := make(map[string]struct{}, len(o.Items))
	for i, item := range o.Items {
		id := string(item.GetProof().GetId())
		if _, twice := seen[id]; twice {
			p.item("items", i, "job_id", errors.New("is there twice; report each job once"))
		}
		seen[id] = struct{}{}
	}
}

// repeats reports whether a repeated op counts its usage only once: the op has a request id, or reports no
// usage.
func (o *Heartbeat) repeats() bool {
	if len(o.GetMeta().GetRequestId()) > 0 {
		return true
	}
	for _, item := range o.Items {
		if item.GetUsage() != nil {
			return false
		}
	}
	return true
}

func (o *Heartbeat) Apply(tx *state.Tx) (*HeartbeatResult, error) {
	result := &HeartbeatResult{Items: make([]*Refusal, len(o.Items))}
	done := &Refusal{}
	for i, item := range o.Items {
		j, over, refused, err := item.apply(tx, o.GetMeta().GetRequestId())
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		if refused == nil {
			refused = done
		}
		if refused.Code == "" {
			if j.Cancelling {
				result.Cancel = append(result.Cancel, uint32(i))
			}
			if over || overCost(j) {
				result.OverBudget = append(result.OverBudget, uint32(i))
			}
		}
		result.Items[i] = refused
	}
	return result, nil
}

// apply renews a lease. It returns the job, whether the budgets have no room for more cost of the attempt (see
// topUp), and the answer to the usage report or the refusal.
func (i *HeartbeatItem) apply(tx *state.Tx, request []byte) (_ *job.Job, over bool, _ *Refusal, _ error) {
	j, refused, err := i.GetProof().job(tx)
	if err != nil || refused != nil {
		return nil, false, refused, err
	}
	to, refused := i.GetProof().transition(j, job.OnRenew)
	if refused != nil {
		// LEASE_LOST replaces STATE_CONFLICT, because the worker must stop whether the job went on or ended.
		refused.Code = string(api.LeaseLost)
		return nil, false, refused, nil
	}
	if j.Lease == nil {
		return nil, false, nil, fmt.Errorf("job %s is %s without a lease", job.ID(j.Id), j.State.Word())
	}
	reported := i.Usage
	answer := doneWith(reported.Fault())
	if len(request) > 0 && bytes.Equal(request, j.Lease.LastRequest) {
		reported = nil // counted before
	}
	usage := rate(tx, j, reported)
	if why := usage.rejected(); why != "" {
		answer = doneWith(why)
	}
	length := j.Lease.LengthMs
	if i.LeaseMs != 0 {
		length = i.LeaseMs
	}
	j.State = to
	if err := report(tx, j, usage, state.UsagePhase_USAGE_PHASE_HEARTBEAT); err != nil {
		return nil, false, nil, err
	}
	if reported != nil && len(request) > 0 {
		j.Lease.LastRequest = request
	}
	enough, err := topUp(tx, j)
	if err != nil {
		return nil, false, nil, err
	}
	j.Lease.ExpiresNs = leaseEnd(tx, j, length)
	events := append(make([]state.EventType, 0, 3), state.EventType_EVENT_RENEWED)
	if !enough && reported != nil {
		events = append(events, state.EventType_EVENT_BUDGET_EXCEEDED)
	}
	if saved, err := putBlob(tx, j, job.Progress, i.Progress); err != nil {
		return nil, false, nil, err
	} else if saved {
		events = append(events, state.EventType_EVENT_PROGRESS)
	}
	if saved, err := putBlob(tx, j, job.Checkpoint, i.Checkpoint); err != nil {
		return nil, false, nil, err
	} else if saved {
		events = append(events, state.EventType_EVENT_CHECKPOINTED)
	}
	return j, !enough, answer, tx.PutJob(j, events...)
}
