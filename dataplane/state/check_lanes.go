package state

import (
	"maps"
	"slices"
)

// laneCount is the expected number of jobs in a lane.
type laneCount struct{ pending, active uint64 }

// countLane counts a job in its lane, if it belongs to one.
func (c *checker) countLane(ix index) {
	if !ix.inLane() {
		return
	}
	count := c.lanes[laneName{ix.queue, ix.key}]
	if ix.ready {
		count.pending++
	} else {
		count.active++
	}
	c.lanes[laneName{ix.queue, ix.key}] = count
}

// checkLanes compares the lanes' counts with their jobs, and the numbers of lanes with the counts in the
// queues and the head.
func (c *checker) checkLanes() error {
	for kv, err := range scanPairs(c.v.snap, []byte{prefixLane}, afterPrefix(prefixLane)) {
		if err != nil {
			return err
		}
		l := &Lane{}
		if err := decode(kv, l); err != nil {
			return err
		}
		if string(kv.Key) != string(appendLaneKey(nil, l.Queue, l.Key)) {
			c.report("lane %q of queue %q lies under key %x", l.Key, l.Queue, kv.Key)
		}
	}
	lanes, changes, err := readLanes(c.v.snap)
	if err != nil {
		return err
	}
	if changes != c.v.head.LaneChanges {
		c.report("there are %d changes of lanes, the head says %d", changes, c.v.head.LaneChanges)
	}
	n, byQueue := uint64(0), map[string]uint64{}
	for _, name := range slices.SortedFunc(maps.Keys(lanes), compareLanes) {
		l := lanes[name].rec
		if l.Forgotten {
			continue
		}
		n++
		byQueue[l.Queue]++
		if got, want := (laneCount{l.Pending, l.Active}), c.lanes[name]; got != want {
			c.report("lane %q of queue %q counts %d ready and %d active jobs, there are %d and %d", l.Key, l.Queue, got.pending, got.active, want.pending, want.active)
		}
		delete(c.lanes, name)
	}
	if n != c.v.head.LaneRecords {
		c.report("there are %d lanes, the head says %d", n, c.v.head.LaneRecords)
	}
	for q, err := range c.v.Queues() {
		if err != nil {
			return err
		}
		if q.Lanes != byQueue[q.Name] {
			c.report("queue %q counts %d lanes, there are %d", q.Name, q.Lanes, byQueue[q.Name])
		}
		if q.Lanes == 0 {
			delete(c.lanes, laneName{queue: q.Name})
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(c.lanes), compareLanes) {
		c.report("queue %q has jobs with the fairness key %q and no lane for it", name.queue, name.key)
	}
	return nil
}
