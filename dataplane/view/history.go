package view

import (
	"bytes"
	"fmt"

	"github.com/corvo/corvo/dataplane/state"
)

// The view must know whether a file belongs to the store's history. The incarnation alone does not tell,
// because a log that lost its tail (relaxed durability) grows again with the same indexes and other entries.
// The newest entry that the file has seen does tell. Index and clock identify this entry: a leader stamps each
// entry with the nanosecond of its making. If the clocks of two leaders' hosts are behind, both may start at one
// clock, but their entries agree only if both make one of this index in the same nanosecond. A log appends an
// entry once, after all entries before it, so two histories that share an entry are the same up to it; and
// apply is deterministic, so their records are the same, too. Entries after the history mark made no events,
// so a view shows nothing of them.
//
// If the store has trimmed the feed past that entry, the terms of leaders tell (inTerm).

// compare compares the store at this head with the file. It returns wait if the store may yet reach the
// file's history mark, and a staleError if the view cannot continue the file. If it returns neither, the view
// may be able to continue the file: precedes checks that.
//
// A store that is behind cannot reach the history mark once it has passed the history mark's index, clock or
// term, because none of these ever falls along a log. So the first entry of a new leader already shows that
// the log lost its tail: its term is higher or, if the group lost its vote too, its clock is later, unless
// that clock was set back.
func (c *cursor) compare(head *state.Head) (wait bool, err error) {
	seen := &c.seen
	switch {
	// A file made from an empty store has no incarnation, and an empty store, as after a crash soon after the
	// start, has none yet. Either may belong to any incarnation.
	case len(c.incarnation) > 0 && len(head.GetIncarnation()) > 0 && !bytes.Equal(c.incarnation, head.GetIncarnation()):
		return false, stale("it is of incarnation %x, the store of %x", c.incarnation, head.GetIncarnation())
	case seen.seq > head.GetFeedNextSeq():
		if head.GetIndex() >= seen.index || head.GetClockNs() > seen.clockNs || head.GetTerm() > seen.term {
			return false, stale("it has seen event %d by index %d, clock %d and term %d; the store is at event %d, index %d, clock %d, term %d, and so has lost what it shows",
				seen.seq, seen.index, seen.clockNs, seen.term, head.GetFeedNextSeq(), head.GetIndex(), head.GetClockNs(), head.GetTerm())
		}
		return true, nil
	}
	return false, nil
}

// old returns a staleError if the feed no longer reaches back to the file. If precedes has proved that such a
// file belongs to the store's history, its rows are true but old.
func (c *cursor) old(head *state.Head) error {
	if first := head.GetFeedFirstSeq(); c.seq < first {
		return &staleError{fmt.Sprintf("it is at event %d and the feed starts at %d", c.seq, first), true}
	}
	return nil
}

// precedes checks whether the file belongs to the history that snap holds, and returns a staleError if it
// does not. It returns known if it does: the feed holds the file's newest entry or, if the store has trimmed
// the feed, the store remembers that entry's term. If the store no longer remembers the term, precedes cannot
// tell, and returns false without an error.
func (c *cursor) precedes(snap *state.Snapshot) (known bool, err error) {
	wait, err := c.compare(snap.Head())
	if err != nil {
		return false, err
	}
	if wait {
		return false, stale("it has seen index %d, and the store has gone back to %d", c.seen.index, snap.Head().GetIndex())
	}
	seen := &c.seen
	if seen.index == 0 {
		return true, nil // the file saw a store without entries
	}
	item, err := lastItem(snap, seen.seq)
	if err != nil {
		return false, err
	}
	if item.Entry == nil {
		return c.inTerm(snap)
	}
	last, next := item.Entry, item.FirstSeq+uint64(len(item.Entry.Events))
	if last.Index != seen.index || last.ClockNs != seen.clockNs || next != seen.seq {
		return false, stale("the last entry it has seen is index %d of %d ns and ends before event %d, the store's is index %d of %d ns and ends before event %d",
			seen.index, seen.clockNs, seen.seq, last.Index, last.ClockNs, next)
	}
	return true, nil
}

// inTerm decides precedes by the terms of leaders. If the store knows the seed of the first entry of the
// file's term, both have that entry and every entry before it. The same leader appended the entries after it,
// in order, so the file and the store have the same entries up to the first entry of the next term.
func (c *cursor) inTerm(snap *state.Snapshot) (known bool, err error) {
	if len(c.seen.leader) == 0 {
		return false, nil
	}
	terms, err := snap.Terms()
	if err != nil {
		return false, err
	}
	end, known := terms.End(c.seen.leader)
	if known && end != 0 && c.seen.index >= end {
		return false, stale("it has seen index %d, and the store's next leader began at %d", c.seen.index, end)
	}
	return known, nil
}
