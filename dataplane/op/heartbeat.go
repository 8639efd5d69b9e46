package op

import (
	"fmt"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// Heartbeat renews leases from the entry's clock and stores what workers report
// on the way, each item on its own. A lease is renewed by the length its fetch
// asked for, unless the item says another for this once. Refusals are NOT_FOUND,
// LEASE_LOST (the worker should stop), and VALIDATION_ERROR where the job's usage
// would overflow.

// Number is Heartbeat's number in the log.
func (*Heartbeat) Number() entry.Number { return numHeartbeat }

// Class is Heartbeat's place among waiting proposals.
func (*Heartbeat) Class() pipeline.Class { return table[numHeartbeat].Class }

// Validate refuses what no state could accept.
func (o *Heartbeat) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.length("items", len(o.Items), job.MaxHeartbeatJobs)
	if len(o.Items) <= job.MaxHeartbeatJobs {
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

// Apply renews the leases.
func (o *Heartbeat) Apply(tx *state.Tx) (*HeartbeatResult, error) {
	result := &HeartbeatResult{Items: make([]*Refusal, len(o.Items))}
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

func (i *HeartbeatItem) apply(tx *state.Tx) (*Refusal, error) {
	j, refused, err := i.GetProof().job(tx)
	if err != nil || refused != nil {
		return refused, err
	}
	to, refused := i.GetProof().claim(j, job.OnRenew)
	if refused != nil {
		// To a worker it is the same whether the job went on or ended.
		refused.Code = string(api.LeaseLost)
		return refused, nil
	}
	usage, err := j.Usage.Add(i.Usage)
	if err != nil {
		return refuse(api.ValidationError, "job %s: %v", job.ID(j.Id), err), nil
	}
	if j.Lease == nil {
		return nil, fmt.Errorf("job %s is %s without a lease", job.ID(j.Id), j.State.Word())
	}
	length := j.Lease.LengthMs
	if i.LeaseMs != 0 {
		length = i.LeaseMs
	}
	j.State = to
	if err := report(tx, j, usage, i.Usage); err != nil {
		return nil, err
	}
	j.Lease.ExpiresNs = tx.ClockNs() + length*int64(time.Millisecond)
	events := append(make([]state.EventType, 0, 3), state.EventType_EVENT_RENEWED)
	if saved, err := putBlob(tx, j, job.Progress, i.Progress); err != nil {
		return nil, err
	} else if saved {
		events = append(events, state.EventType_EVENT_PROGRESS)
	}
	if saved, err := putBlob(tx, j, job.Checkpoint, i.Checkpoint); err != nil {
		return nil, err
	} else if saved {
		events = append(events, state.EventType_EVENT_CHECKPOINTED)
	}
	return nil, tx.PutJob(j, events...)
}
