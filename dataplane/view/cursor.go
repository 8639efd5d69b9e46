package view

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/corvo/corvo/dataplane/state"
)

// cursor is how far a file is in the history of a store. It is stored in the
// file, in the transaction whose rows it speaks of.
type cursor struct {
	incarnation []byte
	position
	// The last feed entry in the file. A log that lost its tail (relaxed
	// durability) and grew another one has the same indexes, not the same
	// entries; these two tell.
	lastIndex   uint64
	lastClockNs int64
}

// staleError says that a file cannot be continued and must be built again.
type staleError struct {
	reason string
	old    bool // what it shows is true, only not new
}

func (e *staleError) Error() string { return "the view cannot be continued: " + e.reason }

func stale(format string, args ...any) error {
	return &staleError{reason: fmt.Sprintf(format, args...)}
}

// loadCursor reads the cursor and the first number without a document.
func (db *database) loadCursor() (c cursor, nextDocument uint64, err error) {
	var highest sql.NullInt64
	err = db.writer.conn.QueryRowContext(context.Background(), `SELECT incarnation, next_seq, raft_index, last_index, last_clock_ns,
		(SELECT max(number) FROM document) FROM cursor`).
		Scan(&c.incarnation, &c.seq, &c.index, &c.lastIndex, &c.lastClockNs, &highest)
	if errors.Is(err, sql.ErrNoRows) {
		return cursor{}, 0, stale("it was never finished")
	}
	if err != nil {
		return cursor{}, 0, err
	}
	if highest.Valid {
		nextDocument = uint64(highest.Int64) + 1
	}
	return c, nextDocument, nil
}

// saveCursor must be called inside the transaction that brings the rows.
func (w *writer) saveCursor(c cursor) error {
	return w.exec(w.putCursor, c.incarnation, int64(c.seq), int64(c.index), int64(c.lastIndex), c.lastClockNs)
}

// ahead says that the store has not yet come to where the file is: after a crash
// the store replays the end of its log.
func (c *cursor) ahead(head *state.Head) bool {
	return c.seq > head.GetFeedNextSeq() || c.index > head.GetIndex()
}

// check says why a file at this cursor cannot follow the store at this head.
func (c *cursor) check(head *state.Head) error {
	switch {
	// A file made from an empty store, at index 0, has no incarnation yet. It can
	// be of any, and be too far behind like every other.
	case c.index != 0 && !bytes.Equal(c.incarnation, head.GetIncarnation()):
		return stale("it is of incarnation %x, the store of %x", c.incarnation, head.GetIncarnation())
	case c.ahead(head):
		return stale("it is at event %d, index %d, and the store at %d, %d", c.seq, c.index, head.GetFeedNextSeq(), head.GetIndex())
	case c.seq < head.GetFeedFirstSeq():
		return &staleError{fmt.Sprintf("it is at event %d and the feed starts at %d", c.seq, head.GetFeedFirstSeq()), true}
	}
	return nil
}

// sameHistory checks that the last entry in the file is the store's.
func (c *cursor) sameHistory(snap *state.Snapshot) error {
	if c.lastIndex == 0 {
		return nil // nothing had ever happened
	}
	last, err := lastEntry(snap, c.seq)
	if err != nil {
		return err
	}
	switch {
	case last == nil:
		return stale("its last entry, index %d, is no longer in the feed to be compared", c.lastIndex)
	case last.Index != c.lastIndex || last.ClockNs != c.lastClockNs:
		return stale("its last entry is index %d of %d ns, the store's is index %d of %d ns",
			c.lastIndex, c.lastClockNs, last.Index, last.ClockNs)
	}
	return nil
}

// lastEntry is the feed entry before sequence seq; nil when there is none.
func lastEntry(snap *state.Snapshot, seq uint64) (*state.FeedEntry, error) {
	if seq == 0 || seq-1 < snap.Head().GetFeedFirstSeq() {
		return nil, nil
	}
	for item, err := range snap.Feed(seq - 1) {
		if err != nil {
			return nil, fmt.Errorf("read event %d of the feed: %w", seq-1, err)
		}
		if item.FirstSeq >= seq {
			return nil, nil
		}
		return item.Entry, nil
	}
	return nil, nil
}
