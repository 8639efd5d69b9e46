package state

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// A lane changes with every enqueue, fetch and ack of its jobs, and most lanes are forgotten moments after
// they appear. Writing each changed lane to its own record would touch many places of the store, so an entry
// writes one record of all changed lanes at the end of a journal. When the journal is full it is folded: the
// remaining lanes are written to their own records, and the journal starts again (ADR 0030).

// laneChangesKept bounds the lane changes in the journal. An entry that folds the journal writes at most that
// many lane records, and one more for each lane that the entry itself changed.
const laneChangesKept = 4096

// laneJournal is the journal in memory.
type laneJournal struct {
	entries []uint64 // indexes of the entries with a record in the journal
	lanes   []*lane  // lanes in the journal, also forgotten ones, in the order of their first change
}

// encodeLanes writes the lanes that the entry changed.
func (tx *Tx) encodeLanes() error {
	for _, q := range tx.queues {
		if q.lanes != nil {
			tx.forget(q)
		}
	}
	journal, changes := &tx.s.laneJournal, tx.laneChanges.Lanes[:0]
	for _, l := range tx.lanes {
		l.touched = false
		if l.rec.Forgotten && !l.stored && !l.journaled {
			continue // created and forgotten within the entry
		}
		changes = append(changes, l.rec)
		if !l.journaled {
			l.journaled = true
			journal.lanes = append(journal.lanes, l)
		}
	}
	tx.laneChanges.Lanes = changes
	if len(changes) == 0 {
		return nil
	}
	tx.head.LaneChanges += uint64(len(changes))
	if tx.head.LaneChanges > uint64(tx.s.options.laneChangesKept) {
		return tx.foldLanes()
	}
	journal.entries = append(journal.entries, tx.head.Index)
	tx.key = appendLaneChangesKey(tx.key[:0], tx.head.Index)
	return put(tx.batch, tx.key, &tx.laneChanges)
}

// foldLanes writes the journal's lanes to their own records and empties the journal. Journal keys are set
// once and removed once, so SingleDelete suffices.
func (tx *Tx) foldLanes() (err error) {
	journal := &tx.s.laneJournal
	for _, l := range journal.lanes {
		tx.key = appendLaneKey(tx.key[:0], l.rec.Queue, l.rec.Key)
		switch {
		case !l.rec.Forgotten:
			err = put(tx.batch, tx.key, l.rec)
		case l.stored:
			err = tx.batch.Delete(tx.key, nil)
		}
		if err != nil {
			return err
		}
		l.stored, l.journaled = !l.rec.Forgotten, false
	}
	for _, index := range journal.entries {
		tx.key = appendLaneChangesKey(tx.key[:0], index)
		if err := tx.batch.SingleDelete(tx.key, nil); err != nil {
			return err
		}
	}
	clear(journal.lanes)
	journal.lanes, journal.entries, tx.head.LaneChanges = journal.lanes[:0], journal.entries[:0], 0
	return nil
}

// readJournal yields the lane changes that are not in the lanes' own records yet, the oldest first.
func readJournal(r source) iter.Seq2[*Lane, error] {
	return func(yield func(*Lane, error) bool) {
		for changes, err := range scan(r, prefixLaneChanges, func() *LaneChanges { return &LaneChanges{} }) {
			if err != nil {
				yield(nil, err)
				return
			}
			for _, l := range changes.Lanes {
				if !yield(l, nil) {
					return
				}
			}
		}
	}
}

type laneName struct{ queue, key string }

func (l *Lane) name() laneName { return laneName{l.Queue, l.Key} }

func compareLanes(a, b laneName) int {
	return cmp.Or(strings.Compare(a.queue, b.queue), strings.Compare(a.key, b.key))
}

// storedLane is a lane as stored. It may be a forgotten lane that is still to be removed.
type storedLane struct {
	rec               *Lane
	stored, journaled bool // has a record of its own; is in the journal
}

// readLanes returns the lanes of the store and the number of changes in its journal.
func readLanes(r source) (lanes map[laneName]storedLane, changes uint64, err error) {
	lanes = map[laneName]storedLane{}
	for rec, err := range scan(r, prefixLane, func() *Lane { return &Lane{} }) {
		if err != nil {
			return nil, 0, err
		}
		lanes[rec.name()] = storedLane{rec: rec, stored: true}
	}
	for rec, err := range readJournal(r) {
		if err != nil {
			return nil, 0, err
		}
		lanes[rec.name()] = storedLane{rec: rec, stored: lanes[rec.name()].stored, journaled: true}
		changes++
	}
	return lanes, changes, nil
}

// loadLanes gives the queues their lanes. It returns the journal and the number of lanes.
func loadLanes(r source, queues map[string]*queue, resources *ResourceIndex, head *Head) (journal laneJournal, n uint64, err error) {
	lanes, changes, err := readLanes(r)
	if err != nil {
		return journal, 0, err
	}
	if changes != head.LaneChanges {
		return journal, 0, fmt.Errorf("there are %d changes of lanes, the head says %d", changes, head.LaneChanges)
	}
	for _, name := range slices.SortedFunc(maps.Keys(lanes), compareLanes) {
		at := lanes[name]
		l := &lane{rec: at.rec}
		if !at.rec.Forgotten {
			q := queues[name.queue]
			if q == nil {
				return journal, 0, fmt.Errorf("there is a lane of queue %q, which is unknown", name.queue)
			}
			l = q.addLane(at.rec, resources.RuleFor(name.queue, name.key))
			if at.rec.Pending > 0 && name.key != "" {
				l.heads.unread()
			}
			q.lanes.settle(l, head.ClockNs)
			n++
		}
		l.stored, l.journaled = at.stored, at.journaled
		if l.journaled {
			journal.lanes = append(journal.lanes, l)
		}
	}
	for key, err := range scanKeys(r, []byte{prefixLaneChanges}, afterPrefix(prefixLaneChanges)) {
		if err != nil {
			return journal, 0, err
		}
		index, err := decodeLaneChangesKey(key)
		if err != nil {
			return journal, 0, err
		}
		journal.entries = append(journal.entries, index)
	}
	return journal, n, nil
}

// Lane returns the record of a queue's lane, or nil if there is none.
func (v *Snapshot) Lane(queue, key string) (*Lane, error) {
	l := &Lane{}
	if found, err := get(v.snap, appendLaneKey(nil, queue, key), l); err != nil {
		return nil, err
	} else if !found {
		l = nil
	}
	for changed, err := range readJournal(v.snap) {
		switch {
		case err != nil:
			return nil, err
		case changed.Queue == queue && changed.Key == key:
			l = changed
		}
	}
	if l.GetForgotten() {
		return nil, nil
	}
	return l, nil
}

// lanesOf returns the lanes of a queue by key; the map is empty if the queue has none.
func (v *Snapshot) lanesOf(queue string) (map[string]*Lane, error) {
	lanes := map[string]*Lane{}
	from := appendLaneKey(nil, queue, "")
	to := append(from[:len(from)-1:len(from)-1], 1)
	for l, err := range scanRange(v.snap, from, to, func() *Lane { return &Lane{} }) {
		if err != nil {
			return nil, err
		}
		lanes[l.Key] = l
	}
	for l, err := range readJournal(v.snap) {
		switch {
		case err != nil:
			return nil, err
		case l.Queue == queue:
			lanes[l.Key] = l
		}
	}
	maps.DeleteFunc(lanes, func(_ string, l *Lane) bool { return l.Forgotten })
	return lanes, nil
}
