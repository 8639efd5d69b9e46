package state

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/corvo/corvo/dataplane/job"
)

// A lane is the jobs of a queue that have one fairness key, and the share of the queue that the key has
// received. A queue gets lanes with its first job that has a key. The jobs without a key then form a lane
// too, the lane of the empty key. The queue loses its lanes when the last one with a key is forgotten.
//
// The queue serves the least served lane next (ADR 0022). The order derives only from the records of the
// lanes and the queue; the lanes in memory are computed from them, so a reopened store goes on as if it had
// never been closed.

// laneHeads bounds the ready jobs that memory holds for one priority of a lane with a key. It is small
// because there may be very many lanes.
const laneHeads = 32

// unknownService is the time in nanoseconds that a lane is charged for a starting job while nothing is known
// about how long such jobs take. EndService corrects the charge when the job ends.
const unknownService = 1e9

// servedMost bounds the served time of a queue. Above it, BeginService rebases the served times of the queue
// and its lanes, far from overflow.
const servedMost = 1 << 61

// lane is a lane in memory, as the running entry leaves it.
type lane struct {
	queue *queue
	rec   *Lane
	rule  *LimitRule // the rule of its key; nil for none
	heads *heads     // its own; the queue's for the empty key
	own   heads

	room  uint64 // jobs that its limits allow to start, as of the last settle
	share uint64 // its weight, while it competes
	dueNs int64  // when its rate limit allows a job again, or when its rate is forgotten

	in         *laneHeap // a heap of its queue; nil if no heap applies, such as for a paused lane
	at, dropAt int       // see laneHeap.place

	stored    bool // has a record of its own
	journaled bool // is in the journal of lanes
	touched   bool // is in tx.lanes
}

// lanes are the lanes of a queue. Each lane is in at most one of the heaps ready, waiting, idle and fading;
// longest also holds all lanes.
type lanes struct {
	byKey map[string]*lane
	// ready lanes compete; the lane served least comes first.
	ready laneHeap
	// waiting lanes have ready jobs that only their rate limit keeps back.
	waiting laneHeap
	// idle lanes have a key and no pending or active jobs; the lane served least comes first.
	idle laneHeap
	// fading lanes are like idle ones, but their rate is still remembered.
	fading laneHeap
	// longest holds all lanes by their number of ready jobs; nil until its first use.
	longest *laneHeap

	room   uint64 // sum over all lanes
	weight uint64 // sum over the competing lanes
	jobs   uint64 // ready and active jobs of all lanes
}

func newLanes() *lanes {
	at := func(l *lane) *int { return &l.at }
	served := func(a, b *lane) bool {
		return cmp.Or(cmp.Compare(a.rec.ServedNs, b.rec.ServedNs), strings.Compare(a.rec.Key, b.rec.Key)) < 0
	}
	due := func(a, b *lane) bool {
		return cmp.Or(cmp.Compare(a.dueNs, b.dueNs), strings.Compare(a.rec.Key, b.rec.Key)) < 0
	}
	return &lanes{
		byKey: map[string]*lane{},
		ready: laneHeap{before: served, place: at}, waiting: laneHeap{before: due, place: at},
		idle: laneHeap{before: served, place: at}, fading: laneHeap{before: due, place: at},
	}
}

// addLane adds a lane with a record to the queue. Its ready jobs in the store are not read yet.
func (q *queue) addLane(rec *Lane, rule *LimitRule) *lane {
	if q.lanes == nil {
		q.lanes = newLanes()
	}
	l := &lane{queue: q, rec: rec, rule: rule, heads: &q.heads}
	if rec.Key != "" {
		l.heads = &l.own
	}
	q.lanes.byKey[rec.Key] = l
	q.lanes.jobs += rec.Pending + rec.Active
	if longest := q.lanes.longest; longest != nil {
		longest.push(l)
	}
	return l
}

// drop removes a lane from the heaps and sums.
func (ls *lanes) drop(l *lane) {
	if l.in != nil {
		l.in.remove(l)
		l.in = nil
	}
	if ls.longest != nil {
		ls.longest.remove(l)
	}
	ls.room -= l.room
	ls.weight -= l.share
	ls.jobs -= l.rec.Pending + l.rec.Active
	delete(ls.byKey, l.rec.Key)
}

// weight returns the lane's weight, at least 1.
func (l *lane) weight() uint64 { return uint64(max(l.rec.Weight, 1)) }

// expectedNs returns the expected duration of a job of the lane.
func (l *lane) expectedNs() int64 {
	return cmp.Or(l.rec.ExpectedNs, l.queue.rec.ExpectedNs, unknownService)
}

// chargeNs returns the time charged to the lane when a job starts: the expected duration divided by the weight.
func (l *lane) chargeNs() int64 { return max(l.expectedNs()/int64(l.weight()), 1) }

// startNs returns the served time of the lane at the start of its next job. A lane with limits gains nothing
// from the time it was kept back: it continues from where the queue is.
func (l *lane) startNs() int64 {
	if l.rule != nil {
		return max(l.rec.ServedNs, l.queue.rec.ServedNs)
	}
	return l.rec.ServedNs
}

// LaneLimit is the part of a limit rule that keeps a lane's ready jobs back.
type LaneLimit uint8

// These are the limits of a rule.
const (
	LaneFree LaneLimit = iota // no limit applies
	LanePaused
	LaneConcurrency
	LaneRate // only time lifts it
)

// Room returns the number of the lane's ready jobs that a rule allows to start. by is the limit that keeps
// them all back, or LaneFree if some may start or none is ready. A nil rule keeps none back.
func (l *Lane) Room(rule *LimitRule, clockNs int64) (room uint64, by LaneLimit) {
	room = l.GetPending()
	if rule == nil || room == 0 {
		return room, LaneFree
	}
	if rule.Paused {
		return 0, LanePaused
	}
	if most := uint64(rule.MaxConcurrency); most > 0 {
		if room = min(room, most-min(most, l.Active)); room == 0 {
			return 0, LaneConcurrency
		}
	}
	if rule.RateLimit > 0 {
		if room = min(room, uint64(l.Rate.Free(rule.RateLimit, rule.RateWindowMs, clockNs))); room == 0 {
			return 0, LaneRate
		}
	}
	return room, LaneFree
}

// settle moves a changed lane to its place in its heap and updates the sums of room and weight.
func (ls *lanes) settle(l *lane, clockNs int64) {
	room, by := l.rec.Room(l.rule, clockNs)
	share, to := uint64(0), (*laneHeap)(nil)
	switch {
	case room > 0:
		share, to = l.weight(), &ls.ready
	case by == LaneRate:
		l.dueNs = max(l.rec.Rate.FreeAt(l.rule.RateLimit, l.rule.RateWindowMs, clockNs), clockNs+1)
		to = &ls.waiting
	case l.rec.Pending > 0 || l.rec.Active > 0 || l.rec.Key == "":
	case l.rec.Rate != nil:
		l.dueNs, to = l.rec.Rate.ForgottenAt(), &ls.fading
	default:
		to = &ls.idle
	}
	ls.room += room - l.room
	ls.weight += share - l.share
	l.room, l.share = room, share
	switch {
	case l.in == to && to != nil:
		to.fix(l)
	default:
		if l.in != nil {
			l.in.remove(l)
		}
		if to != nil {
			to.push(l)
		}
		l.in = to
	}
	if ls.longest != nil {
		ls.longest.fix(l)
	}
}

// wake lets lanes compete again once their rate limits allow jobs.
func (ls *lanes) wake(clockNs int64) {
	for l := ls.waiting.first(); l != nil && l.dueNs <= clockNs; l = ls.waiting.first() {
		ls.settle(l, clockNs)
	}
}

// fetchable returns the number of jobs that the lanes' limits allow to start.
func (ls *lanes) fetchable(clockNs int64) int {
	ls.wake(clockNs)
	return int(ls.room)
}

// freeAt returns the time at which a rate limit next allows a job. It returns 0 if a lane has room, or if no lane
// waits for its rate limit. The caller calls wake before.
func (ls *lanes) freeAt() int64 {
	if l := ls.waiting.first(); l != nil && ls.room == 0 {
		return l.dueNs
	}
	return 0
}

// beginNs returns the served time that a lane gets with its first ready job. It is the queue's served time,
// but at most one job's charge ahead of the first competing lane, so that wrong estimates of durations cannot
// delay the new lane for long.
func (q *queue) beginNs(clockNs int64) int64 {
	q.lanes.wake(clockNs)
	if l := q.lanes.ready.first(); l != nil {
		return min(q.rec.ServedNs, l.startNs()+l.chargeNs())
	}
	return q.rec.ServedNs
}

// longestLane returns the lane with the most ready jobs. The queue must have a lane.
func (ls *lanes) longestLane() *lane {
	if ls.longest == nil {
		ls.longest = &laneHeap{place: func(l *lane) *int { return &l.dropAt }, before: func(a, b *lane) bool {
			return cmp.Or(cmp.Compare(b.rec.Pending, a.rec.Pending), strings.Compare(a.rec.Key, b.rec.Key)) < 0
		}}
		for _, l := range ls.byKey {
			ls.longest.push(l)
		}
	}
	return ls.longest.first()
}

// lane returns the lane of a key, which must exist.
func (q *queue) lane(key string) (*lane, error) {
	if q.lanes != nil {
		if l := q.lanes.byKey[key]; l != nil {
			return l, nil
		}
	}
	return nil, fmt.Errorf("queue %q has no lane for %q, and a job in it", q.rec.Name, key)
}

// inLane reports whether a job counts in a lane.
func (ix index) inLane() bool { return ix.ready || ix.state == job.Active }
