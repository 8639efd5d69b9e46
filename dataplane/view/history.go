package view

import (
	"bytes"
	"fmt"

	"github.com/corvo/corvo/dataplane/state"
)

// Is what a file shows part of the store's history? The incarnation alone does not
// tell: where a log lost its tail (relaxed durability) another one grew, with the
// same indexes and other entries. What tells is the newest entry the file has
// seen. Index and clock identify it: a leader stamps an entry with the nanosecond
// it makes it, and two leaders, even where both begin at one clock since theirs were
// behind, would have to meet to the nanosecond at one index. An entry that is in
// both histories was appended once, behind all that lies before it, so both are
// the same up to there; and apply is deterministic, so the records were too.
// Entries after it made no events: a view does not show whether they are the same.
//
// Where the feed was trimmed past that entry, the terms of leaders tell (inTerm).

// compare says how the store at this head stands to the file: wait means that
// it may yet come to what the file has seen, a *staleError that it cannot be
// continued. That it need not wait proves nothing yet: precedes does.
//
// A store that is behind cannot come to the landmark when it has passed the
// landmark's index, clock or term, none of which ever falls along a log. So the
// first entry of a new leader already shows a lost tail, as its term is a higher
// one, or if the vote was lost too its clock, unless that was set back.
func (c *cursor) compare(head *state.Head) (wait bool, err error) {
	seen := &c.seen
	switch {
	// A file made from an empty store has no incarnation, and an empty store, as a
	// crash soon after the beginning leaves one, none yet: they may be of any.
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

// old is a *staleError if the feed does not reach back to the file any more. Such a file
// shows what was, if precedes has proved that it is of the store's history.
func (c *cursor) old(head *state.Head) error {
	if first := head.GetFeedFirstSeq(); c.seq < first {
		return &staleError{fmt.Sprintf("it is at event %d and the feed starts at %d", c.seq, first), true}
	}
	return nil
}

// precedes finds out whether the file is of the history that snap holds: a *staleError
// says that it is not. known says that it is, because the newest entry the file has seen is
// in the feed or, where the feed was trimmed, because the store remembers the term of it.
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
		return true, nil // nothing had ever happened
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

// inTerm is precedes by the terms of leaders. The file and the store have the first entry
// of a term in common if its seed is the same, and with it every entry before. The entries
// behind it were appended by the same leader, in order, so they are the same as far as both
// have them: up to the first entry of the next term.
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
