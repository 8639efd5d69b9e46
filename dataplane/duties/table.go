package duties

import (
	"context"
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// Duty is one row of the table.
type Duty struct {
	Name string
	Op   string // the op that it proposes
	// run does the work that is due and returns when it wants to run again; never means only after a hook of
	// the store has poked the duties.
	run func(ctx context.Context, d *Duties) (next int64, err error)
}

// Table lists the duties that Duties runs. Bulks runs the bulk operations beside them.
var Table = []Duty{
	{"promote-scheduled", "promote", onTimer(state.TimerScheduled, allDue, promote)},
	{"promote-retrying", "promote", onTimer(state.TimerRetry, allDue, promote)},
	{"reclaim", "reclaim", onTimer(state.TimerLease, leasesOver, reclaim)},
	{"expire-jobs", "expire-jobs", onTimer(state.TimerExpiry, allDue, expireJobs)},
	{"release-unique", "release-unique", onTimer(state.TimerUnique, allDue, releaseUnique)},
	{"purge-jobs", "purge-jobs", purgeJobs},
	{"purge-idempotency", "purge-idempotency", onTimer(state.TimerIdempotency, allDue, purgeIdempotency)},
	{"purge-batches", "purge-batches", onTimer(state.TimerBatch, allDue, purgeBatches)},
	{"resolve-dependents", "resolve-dependents", onTimer(state.TimerDependents, allDue, resolveDependents)},
	{"replenish", "replenish", replenish},
	{"open-gates", "open-gate", openGates},
	{"sweep-queues", "sweep-queue", clearQueues},
	{"run-schedules", "run-schedules", runSchedules},
	{"turn-budgets", "turn-budgets", turnBudgets}, // and balance-budgets
	{"watch-alerts", "set-alerts", watchAlerts},
	{"purge-deliveries", "purge-deliveries", purgeDeliveries},
	{"purge-bulks", "purge-bulks", purgeBulks},
	{"trim-feed", "trim-feed", trimFeed},
	{"record-usage", "record-usage", recordUsage},
	{"trim-usage", "trim-usage", trimUsage},
	{"trim-audit", "trim-audit", trimAudit},
	{"seed-prices", "seed-prices", seedPrices},
}

func promote(meta *op.Meta, ids [][]byte) op.Op {
	return &op.Promote{Meta: meta, JobIds: ids}
}

func reclaim(meta *op.Meta, ids [][]byte) op.Op {
	return &op.Reclaim{Meta: meta, JobIds: ids}
}

func expireJobs(meta *op.Meta, ids [][]byte) op.Op {
	return &op.ExpireJobs{Meta: meta, JobIds: ids}
}

func releaseUnique(meta *op.Meta, ids [][]byte) op.Op {
	return &op.ReleaseUnique{Meta: meta, JobIds: ids}
}

func purgeIdempotency(meta *op.Meta, ids [][]byte) op.Op {
	return &op.PurgeIdempotency{Meta: meta, RecordIds: ids}
}

func purgeBatches(meta *op.Meta, ids [][]byte) op.Op {
	return &op.PurgeBatches{Meta: meta, BatchIds: ids}
}

func resolveDependents(meta *op.Meta, ids [][]byte) op.Op {
	return &op.ResolveDependents{Meta: meta, JobIds: ids}
}

// onTimer returns the run function of a duty that works off one timer class in chunks. choose keeps the ids
// that the op would act on now, and returns when to look at the others.
func onTimer(
	class state.TimerClass,
	choose func(d *Duties, ids [][16]byte, nowNs int64) (due [][]byte, next int64, err error),
	build func(meta *op.Meta, ids [][]byte) op.Op,
) func(context.Context, *Duties) (int64, error) {
	return func(ctx context.Context, d *Duties) (int64, error) {
		for {
			nowNs := d.cfg.NowNs()
			ids, err := d.cfg.Store.Due(class, nowNs, job.MaxDutyItems)
			if err != nil {
				return 0, fmt.Errorf("read timers of class %d: %w", class, err)
			}
			due, next, err := choose(d, ids, nowNs)
			if err != nil {
				return 0, err
			}
			if len(due) == 0 {
				return d.orNextTimer(class, nowNs, next)
			}
			if err := d.cfg.Propose(ctx, build(&op.Meta{Principal: "duty"}, due)); err != nil {
				return 0, err
			}
		}
	}
}

// orNextTimer returns next, or the class's first timer if that timer is earlier and lies after nowNs. A first
// timer up to nowNs belongs to a record that the duty could not work off. The duty tries the record again at
// next, and then also finds the timers after it.
func (d *Duties) orNextTimer(class state.TimerClass, nowNs, next int64) (int64, error) {
	first, ok, err := d.cfg.Store.NextDue(class)
	if err != nil {
		return 0, fmt.Errorf("read the first timer of class %d: %w", class, err)
	}
	if ok && first > nowNs {
		next = min(next, first)
	}
	return next, nil
}

// allDue keeps every id, because nothing but the timer counts.
func allDue(_ *Duties, ids [][16]byte, _ int64) ([][]byte, int64, error) {
	due := make([][]byte, len(ids))
	for i := range ids {
		due[i] = ids[i][:]
	}
	return due, never, nil
}

// leasesOver keeps the jobs whose lease may be reclaimed now. Shortly after the start of a term, a lease is
// reclaimed later than its timer says (job.ReclaimAt), so that workers can renew the leases that ended while
// nobody led.
func leasesOver(d *Duties, ids [][16]byte, nowNs int64) (due [][]byte, next int64, err error) {
	next = never
	termStartedNs := d.cfg.Store.Head().GetTermStartedNs()
	for i := range ids {
		j, err := d.cfg.Store.Job(job.ID(ids[i]))
		if err != nil {
			return nil, 0, fmt.Errorf("read the job of a lease timer: %w", err)
		}
		if j == nil || j.GetState() != job.Active {
			continue // settled since the timers were read
		}
		if at := job.ReclaimAt(j, termStartedNs); at > nowNs {
			next = min(next, at)
			continue
		}
		due = append(due, ids[i][:])
	}
	return due, next, nil
}
