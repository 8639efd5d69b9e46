package state

import (
	"fmt"
	"maps"
	"slices"

	"github.com/corvo/corvo/dataplane/job"
)

// lanesForgotten bounds the lanes of one queue that one commit forgets.
const lanesForgotten = 1000

// CanAddLanes reports whether n more lanes fit under job.MaxLanes.
func (tx *Tx) CanAddLanes(n int) bool { return tx.head.LaneRecords+uint64(n) <= job.MaxLanes }

// Lane returns the record of a queue's lane, or nil if there is none. The caller must not change it.
func (tx *Tx) Lane(queue, key string) *Lane {
	if q := tx.s.queues[queue]; q != nil && q.lanes != nil {
		if l := q.lanes.byKey[key]; l != nil {
			return l.rec
		}
	}
	return nil
}

// moveLane updates the lane of a job that goes from one index to another: its counts, its heads and its place
// in the order.
func (tx *Tx) moveLane(h *entryJob, to index) error {
	q, from := h.queue, h.now
	leaves, comes := from.inLane(), to.inLane()
	if !leaves && !comes {
		return nil
	}
	if leaves && comes && from.key != to.key {
		return fmt.Errorf("its fairness key was %q and is %q", from.key, to.key)
	}
	if q.lanes == nil {
		tx.openLanes(q, to)
	}
	key := to.key
	if leaves {
		key = from.key
	}
	l := q.lanes.byKey[key]
	if l == nil {
		if leaves {
			return fmt.Errorf("queue %q has no lane for %q, and a job in it", q.rec.Name, key)
		}
		l = tx.addLane(q, key)
	}
	had := l.rec.Pending
	if err := l.move(h.id, from, to, tx.headsKept(key)); err != nil {
		return fmt.Errorf("queue %q, key %q: %w", q.rec.Name, key, err)
	}
	if to.ready && (from.state == 0 || from.state == job.Scheduled) && h.job.FairnessWeight > 0 {
		l.rec.Weight = h.job.FairnessWeight
	}
	if had == 0 && l.rec.Pending > 0 {
		l.rec.ServedNs = max(l.rec.ServedNs, q.beginNs(tx.head.ClockNs))
	}
	tx.changedLane(l)
	return nil
}

// move counts a job that goes from one index to another and updates the heads.
func (l *lane) move(id job.ID, from, to index, bound int) error {
	ls, rec := l.queue.lanes, l.rec
	if from.state != to.state {
		if from.state == job.Active {
			if rec.Active == 0 {
				return fmt.Errorf("it counts no active job and one of them ends")
			}
			rec.Active--
			ls.jobs--
			l.queue.gainedJobs = l.queue.gainedJobs || l.rule != nil
		}
		if to.state == job.Active {
			rec.Active++
			ls.jobs++
		}
	}
	if from.readyAs(to) {
		return nil
	}
	if from.ready {
		if rec.Pending == 0 {
			return fmt.Errorf("it counts no ready job and one of them goes")
		}
		rec.Pending--
		ls.jobs--
		if err := l.heads.levels[from.priority].remove(from.number); err != nil {
			return err
		}
	}
	if to.ready {
		rec.Pending++
		ls.jobs++
		l.queue.gainedJobs = true
		return l.heads.levels[to.priority].add(head{to.number, id}, bound)
	}
	return nil
}

// openLanes gives a queue its first lane when its first job with a key arrives. That job is in the queue's
// counts already; all other jobs have no key and form the lane of the empty key.
func (tx *Tx) openLanes(q *queue, first index) {
	rec := &Lane{Queue: q.rec.Name, ServedNs: q.rec.ServedNs, Pending: q.rec.InState[job.Pending] - q.rec.Gated, Active: q.rec.InState[job.Active]}
	if first.ready {
		rec.Pending--
	} else {
		rec.Active--
	}
	tx.newLane(q, rec)
}

func (tx *Tx) addLane(q *queue, key string) *lane {
	return tx.newLane(q, &Lane{Queue: q.rec.Name, Key: key})
}

func (tx *Tx) newLane(q *queue, rec *Lane) *lane {
	l := q.addLane(rec, tx.ResourceIndex().RuleFor(rec.Queue, rec.Key))
	tx.head.LaneRecords++
	q.rec.Lanes++
	tx.touch(q)
	tx.changedLane(l)
	return l
}

// changedLane moves a changed lane to its place and has Commit write its record.
func (tx *Tx) changedLane(l *lane) {
	tx.touchLane(l)
	l.queue.lanes.settle(l, tx.head.ClockNs)
}

func (tx *Tx) touchLane(l *lane) {
	if !l.touched {
		l.touched = true
		tx.lanes = append(tx.lanes, l)
	}
}

// BeginService counts a new attempt of j in the job's lane, if the queue has lanes. It charges the lane the
// expected duration, divided by the lane's weight, and counts the attempt against the rate limit of the key.
// The job must be the one that NextReady returned, have its new lease, and not have been put since.
// BeginService notes the charge in j.Lease; PutJob must follow.
func (tx *Tx) BeginService(j *job.Job) error {
	q := tx.s.queues[j.Queue]
	if q == nil || q.lanes == nil {
		return nil
	}
	l, err := q.lane(j.FairnessKey)
	if err != nil {
		return tx.fail(fmt.Errorf("serve job %x: %w", j.Id, err))
	}
	if q.rec.ServedNs > servedMost {
		tx.rebase(q)
	}
	startNs, chargedNs := l.startNs(), l.chargeNs()
	// A lane that always had jobs would have the queue's served time. Each job advances it by its share among
	// all competing lanes.
	passedNs := q.rec.ServedNs + l.expectedNs()/int64(max(q.lanes.weight, l.weight()))
	q.rec.ServedNs = min(max(passedNs, startNs), startNs+chargedNs)
	l.rec.ServedNs = min(startNs+chargedNs, 2*servedMost-1)
	if l.rule.GetRateLimit() > 0 {
		if l.rec.Rate == nil {
			l.rec.Rate = &job.RateWindow{}
		}
		l.rec.Rate.Take(l.rule.RateWindowMs, tx.head.ClockNs)
	}
	tx.touch(q)
	tx.changedLane(l)
	j.Lease.ChargedNs = chargedNs
	return nil
}

// EndService replaces the charge of an ended attempt with the attempt's real duration. It does so once, and
// PutJob must follow. An attempt that was not delivered took no time and does not change the expected
// duration.
func (tx *Tx) EndService(j *job.Job, delivered bool) {
	chargedNs := j.Lease.GetChargedNs()
	if chargedNs == 0 {
		return
	}
	j.Lease.ChargedNs = 0
	l := tx.laneOf(j)
	if l == nil {
		return // only jobs without a key are left, and their lane is gone
	}
	tookNs := int64(0)
	if delivered {
		tookNs = max(tx.head.ClockNs-j.StartedNs, 1)
		l.rec.ExpectedNs = average(l.rec.ExpectedNs, tookNs)
		l.queue.rec.ExpectedNs = average(l.queue.rec.ExpectedNs, tookNs)
		tx.touch(l.queue)
	}
	l.rec.ServedNs += tookNs/int64(l.weight()) - chargedNs
	tx.changedLane(l)
}

func (tx *Tx) laneOf(j *job.Job) *lane {
	q := tx.s.queues[j.Queue]
	if q == nil || q.lanes == nil {
		return nil
	}
	return q.lanes.byKey[j.FairnessKey]
}

// average moves an average an eighth of the way to a new value; 0 means that there is no average yet.
func average(was, now int64) int64 {
	if was == 0 {
		return now
	}
	return max(was+(now-was)/8, 1)
}

// rebase subtracts the queue's served time from all lanes before the numbers become too large. Only the
// differences between lanes matter.
func (tx *Tx) rebase(q *queue) {
	for _, key := range slices.Sorted(maps.Keys(q.lanes.byKey)) {
		l := q.lanes.byKey[key]
		l.rec.ServedNs -= q.rec.ServedNs
		tx.touchLane(l)
	}
	q.rec.ServedNs = 0
	tx.touch(q)
}

// ApplyRules makes the lanes of a queue follow the limit rules as the entry's earlier ops left them.
func (tx *Tx) ApplyRules(name string) {
	q := tx.s.queues[name]
	if q == nil || q.lanes == nil {
		return
	}
	resources, beginNs := tx.ResourceIndex(), q.beginNs(tx.head.ClockNs)
	for _, key := range slices.Sorted(maps.Keys(q.lanes.byKey)) {
		l, rule := q.lanes.byKey[key], resources.RuleFor(name, key)
		if l.rule == rule {
			continue
		}
		l.rule = rule
		if l.rec.Pending > 0 {
			l.rec.ServedNs = max(l.rec.ServedNs, beginNs)
		}
		switch {
		case rule.GetRateLimit() == 0:
			l.rec.Rate = nil
		case l.rec.Rate != nil:
			l.rec.Rate = l.rec.Rate.Over(rule.RateWindowMs, tx.head.ClockNs)
		}
		tx.changedLane(l)
	}
	tx.touch(q)
	q.gainedJobs = true
}

// forget removes lanes without jobs if that changes nothing: no rate is remembered, and either the queue has
// caught up with their served time or no other jobs compete. It removes at most lanesForgotten of them.
func (tx *Tx) forget(q *queue) {
	ls := q.lanes
	for range lanesForgotten {
		if l := ls.fading.first(); l != nil && l.dueNs <= tx.head.ClockNs {
			l.rec.Rate = nil
			tx.changedLane(l)
			continue
		}
		l := ls.idle.first()
		if l == nil || l.rec.ServedNs > q.rec.ServedNs && ls.jobs > 0 {
			break
		}
		tx.removeLane(l)
	}
	if len(ls.byKey) == 1 && ls.byKey[""] != nil {
		tx.removeLane(ls.byKey[""])
		q.lanes = nil
	}
}

// removeLane removes a lane from memory at once and from the store at Commit.
func (tx *Tx) removeLane(l *lane) {
	l.queue.lanes.drop(l)
	l.queue.rec.Lanes--
	tx.head.LaneRecords--
	l.rec.Forgotten = true
	tx.touchLane(l)
}

func (tx *Tx) removeLanes(q *queue) {
	if q.lanes == nil {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(q.lanes.byKey)) {
		tx.removeLane(q.lanes.byKey[key])
	}
	q.lanes = nil
}
