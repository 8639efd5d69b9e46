package view

import (
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
	clockNs int64 // of the last entry that was read of the feed
	// Rows are made from the records of the moment, so what they show can be newer
	// than what was read of the feed; never newer than seen.
	seen landmark
}

// landmark is a feed entry, or no entry at all, when index is 0. history.go says
// what may be concluded from one.
type landmark struct {
	seq     uint64 // of the first event after it
	index   uint64
	clockNs int64
	term    uint64 // at least the entry's
	leader  []byte // seed of the first entry of the newest term; nil for none
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
	err = db.writer.conn.QueryRowContext(context.Background(), `SELECT incarnation, next_seq, raft_index, clock_ns,
		seen_seq, seen_index, seen_clock_ns, seen_term, seen_leader, (SELECT max(number) FROM document) FROM cursor`).
		Scan(&c.incarnation, &c.seq, &c.index, &c.clockNs, &c.seen.seq, &c.seen.index, &c.seen.clockNs, &c.seen.term, &c.seen.leader, &highest)
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
	return w.exec(w.putCursor, c.incarnation, int64(c.seq), int64(c.index), c.clockNs,
		int64(c.seen.seq), int64(c.seen.index), c.seen.clockNs, int64(c.seen.term), c.seen.leader)
}

// newest is the landmark of all that can be read from snap.
func newest(snap *state.Snapshot) (landmark, error) {
	head := snap.Head()
	terms, err := snap.Terms()
	if err != nil {
		return landmark{}, err
	}
	mark := landmark{seq: head.GetFeedNextSeq(), term: head.GetTerm(), leader: terms.Last()}
	item, err := lastItem(snap, mark.seq)
	switch {
	case err != nil:
		return landmark{}, err
	case item.Entry != nil:
		mark.index, mark.clockNs = item.Entry.Index, item.Entry.ClockNs
	case mark.seq > 1:
		// The whole feed was trimmed. Nothing will be found to compare with the
		// landmark, but a store that is before it can be told.
		mark.index, mark.clockNs = head.GetIndex(), head.GetClockNs()
	}
	return mark, nil
}

// lastItem is the feed entry with the event before seq; one without an Entry when
// there is none.
func lastItem(snap *state.Snapshot, seq uint64) (state.FeedItem, error) {
	head := snap.Head()
	if seq == 0 || seq-1 < head.GetFeedFirstSeq() || seq > head.GetFeedNextSeq() {
		return state.FeedItem{}, nil
	}
	for item, err := range snap.Feed(seq - 1) {
		if err != nil {
			return state.FeedItem{}, fmt.Errorf("read event %d of the feed: %w", seq-1, err)
		}
		return item, nil
	}
	return state.FeedItem{}, nil
}
