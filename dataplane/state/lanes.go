package state

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/corvo/corvo/dataplane/job"
)

// A lane is the jobs of a queue that have one fairness key, and the share of the
// queue that the key has had. A queue none of whose jobs has a key has no lanes; as
// soon as one has, those without a key are a lane too, the one of the empty key.
//
// The queue goes on with the lane that has been served least (ADR 0022). All that
// order follows from lies in the lanes' records and the queue's: what is here in
// memory is computed from them, and a store that is opened again goes on as if it had
// never been closed.

// laneHeads is how many ready jobs of a lane and priority are held in memory. There
// may be very many lanes.
const laneHeads = 32

// unknownService is what a job is charged in advance when nothing is known of how
// long such jobs take. It is corrected when the job ends.
const unknownService = 1e9

// servedMost bounds what a lane is said to have been served, far from what overflows.
const servedMost = 1 << 61

// lane is a lane in memory, as the running entry leaves it.
type lane struct {
	queue *queue
	rec   *Lane
	rule  *LimitRule // that its key obeys; nil for none
	heads *heads     // its own; of the empty key the queue's
	own   heads

	room  uint64 // jobs that its limits let go, when last looked at
	share uint64 // its weight, while it competes
	dueNs int64  // until when it waits, or its rate is remembered

	in         *laneHeap // one of its queue's; nil where it waits for an event
	at, dropAt int       // see laneHeap.place

	stored    bool // it has a record of its own
	journaled bool // it is in the journal
	touched   bool // it is in tx.lanes
}

// lanes are those of a queue. Each lane is in one of the heaps at most; longest is
// beside them.
type lanes struct {
	byKey map[string]*lane
	// ready compete; the one served least comes first.
	ready laneHeap
	// waiting have ready jobs that only their rate keeps.
	waiting laneHeap
	// idle have no jobs; the one comes first that the queue has caught up with first.
	idle laneHeap
	// fading have no jobs, and their rate is remembered still.
	fading laneHeap
	// longest are all, by how many jobs are ready; nil until somebody asks.
	longest *laneHeap

	room   uint64 // of all
	weight uint64 // of those that compete
	jobs   uint64 // of all, ready and active
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

// add makes a lane of a record one of the queue's. Its jobs in the store, if it has
// any, are not read yet.
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

// drop takes a lane out.
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

// weight is the lane's share against those of others.
func (l *lane) weight() uint64 { return uint64(max(l.rec.Weight, 1)) }

// expectedNs is how long a job of the lane is expected to take.
func (l *lane) expectedNs() int64 {
	return cmp.Or(l.rec.ExpectedNs, l.queue.rec.ExpectedNs, unknownService)
}

// chargeNs is what a job of the lane is charged in advance, by weight.
func (l *lane) chargeNs() int64 { return max(l.expectedNs()/int64(l.weight()), 1) }

// startNs is what the lane has been served where its next job is let go. A lane that
// its limits may keep makes nothing of the time it was kept: it goes on where the
// queue is.
func (l *lane) startNs() int64 {
	if l.rule != nil {
		return max(l.rec.ServedNs, l.queue.rec.ServedNs)
	}
	return l.rec.ServedNs
}

// LaneLimit is what of a limit rule keeps a lane's ready jobs.
type LaneLimit uint8

// The limits of a rule.
const (
	LaneFree LaneLimit = iota // none does
	LanePaused
	LaneConcurrency
	LaneRate // nothing but time lifts it
)

// Room is how many of the lane's ready jobs a rule lets go, and what of it keeps them
// where that is none. A nil rule keeps nothing.
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

// settle has a lane that was changed take its place.
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

// wake has the lanes compete that their rates let go of by now.
func (ls *lanes) wake(clockNs int64) {
	for l := ls.waiting.first(); l != nil && l.dueNs <= clockNs; l = ls.waiting.first() {
		ls.settle(l, clockNs)
	}
}

// fetchable is how many jobs the lanes' limits let go.
func (ls *lanes) fetchable(clockNs int64) int {
	ls.wake(clockNs)
	return int(ls.room)
}

// freeAt is when a lane's rate lets a job go where nothing else does: 0 where other
// lanes have some, or it is not their rates that keep all.
func (ls *lanes) freeAt() int64 {
	if l := ls.waiting.first(); l != nil && ls.room == 0 {
		return l.dueNs
	}
	return 0
}

// beginNs is where a lane begins that gets its first ready job: at what a lane would
// have been served that always had one. That is kept within a job of the least that
// any has been served, for what jobs were expected to take may have been far off.
func (q *queue) beginNs(clockNs int64) int64 {
	q.lanes.wake(clockNs)
	if l := q.lanes.ready.first(); l != nil {
		return min(q.rec.ServedNs, l.startNs()+l.chargeNs())
	}
	return q.rec.ServedNs
}

// longestLane is the lane with the most ready jobs.
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

// lane is the lane of a key, which must be there.
func (q *queue) lane(key string) (*lane, error) {
	if q.lanes != nil {
		if l := q.lanes.byKey[key]; l != nil {
			return l, nil
		}
	}
	return nil, fmt.Errorf("queue %q has no lane for %q, and a job in it", q.rec.Name, key)
}

// inLane says whether a job counts in a lane.
func (ix index) inLane() bool { return ix.ready || ix.state == job.Active }
