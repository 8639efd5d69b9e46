package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// restAfter is the time by which a history's clock advances after its last step, and restMost bounds the
// rounds of the duties. By then every wait for a time is over, except for records that are kept for a day or
// more.
const (
	restAfter = 2 * time.Hour
	restMost  = 100
)

// rest runs the duties of all shards until the stores' timers say that nothing is due. Then it checks that
// nothing still waits for something that has happened.
func (s *simulation) rest() error {
	s.clockNs += int64(restAfter)
	for range restMost {
		busy, err := s.deliverAll()
		if err != nil {
			return err
		}
		for _, sh := range s.shards {
			ops, err := sh.duties()
			if err != nil {
				return err
			}
			if len(ops) == 0 {
				continue
			}
			busy = true
			if err := sh.commit(ops...); err != nil {
				return fmt.Errorf("shard %d: %w", sh.number, err)
			}
		}
		if !busy {
			return s.inspectRest()
		}
		s.clockNs += int64(time.Minute)
	}
	return errors.New("the duties find no end")
}

// onTimers contains the ops that a duty proposes for due records, for each class of timers whose ops need
// only the records' ids.
var onTimers = map[state.TimerClass]func(ids [][]byte) op.Op{
	state.TimerScheduled:   func(ids [][]byte) op.Op { return &op.Promote{Meta: duty(), JobIds: ids} },
	state.TimerRetry:       func(ids [][]byte) op.Op { return &op.Promote{Meta: duty(), JobIds: ids} },
	state.TimerLease:       func(ids [][]byte) op.Op { return &op.Reclaim{Meta: duty(), JobIds: ids} },
	state.TimerExpiry:      func(ids [][]byte) op.Op { return &op.ExpireJobs{Meta: duty(), JobIds: ids} },
	state.TimerUnique:      func(ids [][]byte) op.Op { return &op.ReleaseUnique{Meta: duty(), JobIds: ids} },
	state.TimerIdempotency: func(ids [][]byte) op.Op { return &op.PurgeIdempotency{Meta: duty(), RecordIds: ids} },
	state.TimerBatch:       func(ids [][]byte) op.Op { return &op.PurgeBatches{Meta: duty(), BatchIds: ids} },
	state.TimerDelivered:   func(ids [][]byte) op.Op { return &op.PurgeDeliveries{Meta: duty(), DeliveryIds: ids} },
	state.TimerBulk:        func(ids [][]byte) op.Op { return &op.PurgeBulks{Meta: duty(), BulkIds: ids} },
	state.TimerDependents:  func(ids [][]byte) op.Op { return &op.ResolveDependents{Meta: duty(), JobIds: ids} },
}

// duties returns the ops that a leader of the shard would propose now.
func (sh *shard) duties() (ops []op.Op, err error) {
	store, nowNs := sh.steady.store, max(sh.model.clockNs, sh.clockNs+sh.skewNs)
	due := func(class state.TimerClass) (all [][]byte) {
		ids, failed := store.Due(class, nowNs, job.MaxDutyItems)
		err = errors.Join(err, failed)
		for _, id := range ids {
			all = append(all, id[:])
		}
		return all
	}
	// Timers with one op per class.
	for class := range state.TimerClass(32) {
		build := onTimers[class]
		if build == nil {
			continue
		}
		if ids := due(class); len(ids) > 0 {
			ops = append(ops, build(ids))
		}
	}
	// Timers whose ops need more than ids.
	for _, id := range due(state.TimerSchedule) {
		s, failed := store.Schedule([16]byte(id))
		if failed != nil {
			return nil, failed
		}
		run := &op.Run{Id: id, Version: s.GetVersion(), DueNs: s.GetNextRunNs(), RunNs: []int64{s.GetNextRunNs()}} // without a next run, so the schedule ends
		ops = append(ops, &op.RunSchedules{Meta: duty(), Runs: []*op.Run{run}})
	}
	if ids := due(state.TimerDelivery); len(ids) > 0 {
		ops = append(ops, sh.sendDue(ids))
	}
	if turns := sh.work.turns(nowNs); len(due(state.TimerBudget)) > 0 && len(turns) > 0 {
		ops = append(ops, &op.TurnBudgets{Meta: duty(), Turns: turns})
	}
	// Work without a timer: bulk operations, clearings, retention, rate limits, gates.
	for _, id := range slices.Sorted(maps.Keys(sh.model.bulks.parts)) {
		ops = append(ops, sh.model.bulks.parts[id].chunk(sh.model, 50, func() bool { return false }))
	}
	for _, c := range store.Clearings() {
		if o := sh.sweep(c); o != nil {
			ops = append(ops, o)
		}
	}
	over, _, failed := store.RetentionDue(nowNs, job.MaxDutyItems)
	if err = errors.Join(err, failed); len(over) > 0 {
		o := &op.PurgeJobs{Meta: duty()}
		for _, id := range over {
			o.JobIds = append(o.JobIds, id[:])
		}
		ops = append(ops, o)
	}
	if names := store.ReplenishDue(nowNs); len(names) > 0 {
		ops = append(ops, &op.Replenish{Meta: duty(), Queues: names})
	}
	if o, failed := sh.openGates(nowNs); o != nil || failed != nil {
		ops, err = append(ops, o), errors.Join(err, failed)
	}
	return ops, err
}

// sweep returns the op that the duty proposes for a queue that is being cleared or deleted. It returns nil
// while the duty waits for workers to end their attempts.
func (sh *shard) sweep(c state.Clearing) op.Op {
	o := &op.SweepQueue{Meta: duty(), Queue: c.Queue, Last: true}
	if !c.Deleting {
		o.Below = c.Below
	}
	asked := true
	for _, j := range byNumber(sh.model) {
		if j.queue == c.Queue && (c.Deleting || j.state.Waits() && j.number < c.Below) && len(o.JobIds) < job.MaxDutyItems {
			o.JobIds = append(o.JobIds, j.id[:])
			asked = asked && j.doomed
		}
	}
	if len(o.JobIds) > 0 && asked {
		return nil
	}
	return o
}

// inspectRest checks that nothing waits for an event that has already happened.
func (s *simulation) inspectRest() error {
	if n := len(s.ledger.promised); n > 0 {
		return fmt.Errorf("%d jobs that follow from others were never made", n)
	}
	// Check every job and batch, and count the members that have not settled.
	left := map[job.ID]uint64{} // members that have not settled, by batch
	for _, sh := range s.shards {
		v := sh.steady.store.Snapshot()
		defer v.Close()
		for j, err := range v.Jobs() {
			if err != nil {
				return err
			}
			if b := j.GetBatch(); b != nil && !b.GetCounted() {
				left[job.ID(b.GetBatchId())]++
			}
			if sh.model.retentionOver(sh.model.jobs[job.ID(j.GetId())]) {
				return fmt.Errorf("shard %d: job %s is there, its retention over", sh.number, job.ID(j.GetId()))
			}
			if err := s.inspectWaiting(j); err != nil {
				return fmt.Errorf("shard %d: job %s %w", sh.number, job.ID(j.GetId()), err)
			}
		}
		for b, err := range v.Batches() {
			if err != nil {
				return err
			}
			if len(b.GetParentId()) > 0 && b.GetCompletedNs() == 0 {
				left[job.ID(b.GetParentId())]++
			}
		}
		if err := sh.inspectGates(); err != nil {
			return fmt.Errorf("shard %d: %w", sh.number, err)
		}
		if c := sh.steady.store.Clearings(); len(c) > 0 {
			return fmt.Errorf("shard %d: queues are cleared without end: %+v", sh.number, c)
		}
	}
	// Compare the counts of bulk operations and batches, which all shards have contributed to.
	if err := s.inspectBulks(); err != nil {
		return err
	}
	for _, sh := range s.shards {
		if err := sh.inspectBatches(left); err != nil {
			return fmt.Errorf("shard %d: %w", sh.number, err)
		}
	}
	return nil
}

// inspectWaiting checks that a job waits only for things that have not happened.
func (s *simulation) inspectWaiting(j *job.Job) error {
	if err := s.inspectTools(j); err != nil {
		return err
	}
	switch {
	case j.GetState() == job.Active:
		return errors.New("is active, its lease over")
	case j.GetState() == job.Retrying, j.GetState() == job.Scheduled && j.GetBlockedBy() == 0:
		return fmt.Errorf("is %s, its time over", j.GetState().Word())
	case j.GetState() != job.Scheduled:
		return nil
	}
	told := uint32(0) // jobs that will still notify it
	for _, sh := range s.shards {
		for id, w := range sh.model.waiters {
			if _, waits := w.shards[job.ID(j.GetId())]; waits && sh.model.jobs[id].live() {
				told++
			}
		}
	}
	if told < j.GetBlockedBy() {
		return fmt.Errorf("is blocked by %d, and only %d will ever tell it", j.GetBlockedBy(), told)
	}
	return nil
}

// inspectBatches compares the counts of a shard's batches with a second count of their members, settled and
// unsettled.
func (sh *shard) inspectBatches(left map[job.ID]uint64) error {
	v := sh.steady.store.Snapshot()
	defer v.Close()
	for b, err := range v.Batches() {
		if err != nil {
			return err
		}
		id := job.ID(b.GetId())
		if got, want := (tally{b.GetSucceeded(), b.GetFailed(), b.GetCancelled()}), *sh.ledger.members[id]; got != want {
			return fmt.Errorf("%s counts %+v of its members, they were %+v", job.BatchIDText(id), got, want)
		}
		if b.GetTotal()-b.Settled() != left[id] {
			return fmt.Errorf("%s waits for %d members, and %d have not settled", job.BatchIDText(id), b.GetTotal()-b.Settled(), left[id])
		}
		if complete := !b.GetOpen() && left[id] == 0; complete != (b.GetCompletedNs() > 0) {
			return fmt.Errorf("%s is open %v, waits for %d members and was completed at %d", job.BatchIDText(id), b.GetOpen(), left[id], b.GetCompletedNs())
		}
	}
	return nil
}
