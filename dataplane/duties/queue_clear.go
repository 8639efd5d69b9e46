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

// clearTimeout bounds the duty's wait for the node's view, which finds the jobs of a queue. The bound is
// short, because the other duties wait meanwhile. After clearAgain the duty looks again if the view was late.
const (
	clearTimeout = 200 * time.Millisecond
	clearAgain   = time.Second
)

// A clear removes the waiting jobs of a queue. A deletion first removes the inactive ones, and the active
// ones when their attempts have ended.
var (
	waiting  = []job.State{job.Pending, job.Scheduled, job.Retrying}
	inactive = []job.State{job.Pending, job.Scheduled, job.Retrying, job.Held, job.Completed, job.Dead, job.Cancelled}
)

// clearQueues removes jobs of the queues that are being cleared or deleted. A pass removes one chunk of each,
// so that a large queue does not delay the other duties.
func clearQueues(ctx context.Context, d *Duties) (next int64, err error) {
	next = never
	deleting := map[string]uint64{}
	for _, c := range d.cfg.Store.Clearings() {
		again, err := d.clearSome(ctx, c)
		// A view that is too busy to answer is tried again, like one that is behind.
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

// clearSome removes a chunk of a queue's jobs and returns when to continue.
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
		if len(ids) == 0 { // the view does not show the remaining jobs
			return d.cfg.NowNs() + int64(clearAgain), nil
		}
		// Apply removes the queue only if these were its last jobs.
		err = d.sweep(ctx, &op.SweepQueue{Queue: c.Queue, JobIds: ids, Last: true})
		return d.cfg.NowNs(), err
	case c.Active > 0:
		return d.askActive(ctx, c.Queue)
	}
	return never, d.sweep(ctx, &op.SweepQueue{Queue: c.Queue, Last: true})
}

// askActive cancels the active jobs of a queue that is being deleted. It asks for each job once, because the
// queue starts no more jobs. When a cancelled job ends, OnClearing wakes the duty.
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
		if last == nil { // settled in between: look at these again
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

// jobIDs returns up to job.MaxDutyItems jobs of a queue that are in one of the states and numbered below a
// number.
func (d *Duties) jobIDs(ctx context.Context, queue string, states []job.State, below uint64) ([][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, clearTimeout)
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
