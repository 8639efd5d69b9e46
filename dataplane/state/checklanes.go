package state

import "slices"

// laneName is a lane's place.
type laneName struct{ queue, key string }

// laneCount is how many jobs a lane should have.
type laneCount struct{ pending, active uint64 }

// countLane counts a job where it belongs to a lane, if its queue has any.
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

// checkLanes compares the lanes' counts with the jobs', and the numbers of lanes with
// what the queues and the head say.
func (c *checker) checkLanes() error {
	n, byQueue := uint64(0), map[string]uint64{}
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
		n++
		byQueue[l.Queue]++
		name := laneName{l.Queue, l.Key}
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
	var without []laneName
	for name := range c.lanes {
		without = append(without, name)
	}
	slices.SortFunc(without, func(a, b laneName) int { return slices.Compare([]string{a.queue, a.key}, []string{b.queue, b.key}) })
	for _, name := range without {
		c.report("queue %q has jobs with the fairness key %q and no lane for it", name.queue, name.key)
	}
	return nil
}

// Lane is the record of a queue's lane; nil when there is none.
func (v *Snapshot) Lane(queue, key string) (*Lane, error) {
	l := &Lane{}
	if found, err := get(v.snap, appendLaneKey(nil, queue, key), l); !found {
		return nil, err
	}
	return l, nil
}
