package duties

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// How long the duty waits for the view of its node, in which it finds the jobs of a
// queue, and how long until it looks again where that was not enough. The other
// duties wait meanwhile.
const (
	clearPatience = 200 * time.Millisecond
	clearAgain    = time.Second
)

// waiting are the states that a clear takes jobs in; inactive those that a deletion
// removes jobs in at once.
var (
	waiting  = []job.State{job.Pending, job.Scheduled, job.Retrying}
	inactive = []job.State{job.Pending, job.Scheduled, job.Retrying, job.Held, job.Completed, job.Dead, job.Cancelled}
)

// clearQueues removes jobs of the queues that are being cleared or deleted: one
// chunk of each, so that a large queue does not keep the other duties waiting.
func clearQueues(ctx context.Context, d *Duties) (next int64, err error) {
	next = never
	deleting := map[string]uint64{}
	for _, c := range d.cfg.Store.Clearings() {
		again, err := d.clearSome(ctx, c)
		// A view that is too busy to answer is as much of a reason to come again.
		late := api.CodeOf(err) == api.ViewBehind || errors.Is(err, context.DeadlineExceeded)
		if late && ctx.Err() == nil {
			again, err = d.cfg.NowNs()+int64(clearAgain), nil
		}
		if err != nil {
			return 0, err
		}
		next = min(next, again)
		if below, ok := d.asked[c.Queue]; ok && c.Deleting {
			deleting[c.Queue] = below
		}
	}
	d.asked = deleting
	return next, nil
}

// clearSome removes a chunk of a queue's jobs and says when to come again.
func (d *Duties) clearSome(ctx context.Context, c state.Clearing) (next int64, err error) {
	switch {
	case !c.Deleting:
		ids, err := d.jobIDs(ctx, c.Queue, waiting, c.Below)
		if err != nil {
			return 0, err
		}
		last := len(ids) < job.MaxDutyItems
		err = d.sweep(ctx, &op.SweepQueue{Queue: c.Queue, JobIds: ids, Last: last, Below: c.Below})
		return d.cfg.NowNs(), err
	case c.Rest > 0:
		ids, err := d.jobIDs(ctx, c.Queue, inactive, math.MaxUint64)
		if err != nil {
			return 0, err
		}
		if len(ids) == 0 { // the view has what came after
			return d.cfg.NowNs() + int64(clearAgain), nil
		}
		// Only a queue that has no jobs then is gone with the last of these.
		err = d.sweep(ctx, &op.SweepQueue{Queue: c.Queue, JobIds: ids, Last: true})
		return d.cfg.NowNs(), err
	case c.Active > 0:
		return d.askActive(ctx, c.Queue)
	}
	return never, d.sweep(ctx, &op.SweepQueue{Queue: c.Queue, Last: true})
}

// askActive has the active jobs of a queue cancelled that is being deleted, each
// once: it gives no more out. What becomes of them wakes the duty.
func (d *Duties) askActive(ctx context.Context, queue string) (next int64, err error) {
	below, begun := d.asked[queue]
	if !begun {
		below = math.MaxUint64
	}
	if below == 0 {
		return never, nil
	}
	ids, err := d.jobIDs(ctx, queue, []job.State{job.Active}, below)
	if err != nil {
		return 0, err
	}
	if len(ids) < job.MaxDutyItems {
		below = 0
	} else {
		last, err := d.cfg.Store.Job(job.ID(ids[len(ids)-1]))
		if err != nil {
			return 0, fmt.Errorf("read a job of queue %s: %w", queue, err)
		}
		if last == nil { // settled since: look at these again
			return d.cfg.NowNs(), nil
		}
		below = last.Number
	}
	if len(ids) > 0 {
		if err := d.sweep(ctx, &op.SweepQueue{Queue: queue, JobIds: ids}); err != nil {
			return 0, err
		}
	}
	d.asked[queue] = below
	return d.cfg.NowNs(), nil
}

func (d *Duties) sweep(ctx context.Context, o *op.SweepQueue) error {
	o.Meta = &op.Meta{Principal: "duty"}
	return d.cfg.Propose(ctx, o)
}

// jobIDs are some jobs of a queue in any of the states.
func (d *Duties) jobIDs(ctx context.Context, queue string, states []job.State, below uint64) ([][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, clearPatience)
	defer cancel()
	found, err := d.cfg.JobIDs(ctx, queue, states, below, job.MaxDutyItems)
	if err != nil {
		return nil, fmt.Errorf("find jobs of queue %s: %w", queue, err)
	}
	ids := make([][]byte, len(found))
	for i := range found {
		ids[i] = found[i][:]
	}
	return ids, nil
}
