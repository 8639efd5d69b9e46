package view

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/corvo/corvo/dataplane/state"
)

// cursor is a file's position in the history of a store. The file keeps it, and a flush of events writes it in
// the transaction of the rows that it describes.
type cursor struct {
	incarnation []byte
	position
	clockNs int64 // of the last entry that the flusher has read from the feed
	// seen is the newest entry that rows may show. The flusher makes rows from the current records, so rows
	// can be newer than the position in the feed, but never newer than seen.
	seen historyMark
}

// historyMark is an entry of the feed, or no entry if index is 0. history.go explains which conclusions a
// historyMark allows.
type historyMark struct {
	seq     uint64 // of the first event after the entry
	index   uint64
	clockNs int64
	term    uint64 // the entry's term or a later one
	leader  []byte // the seed of the first entry of the newest term, or nil
}

// staleError reports that the view cannot continue a file and must build it again.
type staleError struct {
	reason string
	old    bool // the rows are true, but old
}

func (e *staleError) Error() string { return "the view cannot be continued: " + e.reason }

func stale(format string, args ...any) error {
	return &staleError{reason: fmt.Sprintf(format, args...)}
}

// loadCursor reads the cursor. nextDocument is one more than the highest number of a document in the file, or 0.
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

// saveCursor writes the cursor. It must be called inside the transaction that writes the cursor's rows.
func (w *writer) saveCursor(c cursor) error {
	return w.exec(w.putCursor, c.incarnation, int64(c.seq), int64(c.index), c.clockNs,
		int64(c.seen.seq), int64(c.seen.index), c.seen.clockNs, int64(c.seen.term), c.seen.leader)
}

// newest returns the history mark of everything that snap holds.
func newest(snap *state.Snapshot) (historyMark, error) {
	head := snap.Head()
	terms, err := snap.Terms()
	if err != nil {
		return historyMark{}, err
	}
	mark := historyMark{seq: head.GetFeedNextSeq(), term: head.GetTerm(), leader: terms.Last()}
	item, err := lastItem(snap, mark.seq)
	switch {
	case err != nil:
		return historyMark{}, err
	case item.Entry != nil:
		mark.index, mark.clockNs = item.Entry.Index, item.Entry.ClockNs
	case mark.seq > 1:
		// The store has trimmed the whole feed. No entry is left to compare with this history mark, but compare
		// can still recognise a store that is behind it.
		mark.index, mark.clockNs = head.GetIndex(), head.GetClockNs()
	}
	return mark, nil
}

// lastItem returns the feed entry that holds the event before seq, or an item without an Entry if the feed
// does not hold it.
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
