package view

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/corvo/corvo/dataplane/state"
)

const (
	// retryDelay is the wait after a failed projection before the flusher tries again.
	retryDelay = time.Second
	// replayTimeout is the longest time that the view keeps a file unused while the store is behind the file
	// and does not move. A store waits for a leader to say how much of its log is committed, so the bound
	// matters for a group without a majority. It also bounds the wait for a group that lost its log's tail
	// and its vote, and has a clock that was set back.
	replayTimeout = time.Minute
)

// errRebuildRequested ends the wait for the store because a caller asks for a rebuild.
var errRebuildRequested = errors.New("the view is to be built again")

// run brings the file to the end of the feed, waits, and repeats.
func (v *View) run(ctx context.Context) {
	defer close(v.stopped)
	for {
		err := v.catchUp(ctx)
		if ctx.Err() != nil {
			return
		}
		v.setFailure(err)
		if err != nil {
			sleep(ctx, retryDelay)
		} else {
			v.pause(ctx)
		}
	}
}

// setFailure records why the view does not follow. It logs a change between failing and following, but not
// each repeated failure.
func (v *View) setFailure(err error) {
	v.mu.Lock()
	was := v.failure
	v.failure = err
	v.mu.Unlock()
	switch {
	case err != nil && was == nil:
		v.log.Error("the view cannot follow the store; it tries again", "error", err)
	case err == nil && was != nil:
		v.log.Info("the view follows the store again")
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// pause waits until there is something to flush, and until it has waited for FlushEvery, so that the feed
// collects events. It returns at once when a reader waits.
func (v *View) pause(ctx context.Context) {
	delay := time.NewTimer(v.o.FlushEvery)
	defer delay.Stop()
	select {
	case <-v.grown:
	case <-v.prompted:
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-delay.C:
	case <-v.prompted:
	case <-ctx.Done():
	}
}

// catchUp brings the file to the end of the feed and rebuilds it if necessary.
func (v *View) catchUp(ctx context.Context) error {
	rebuilt := false
	for ctx.Err() == nil {
		if requests := v.takeRebuildRequests(); len(requests) > 0 {
			v.answer(requests, v.rebuild(ctx, "it was asked for"))
		}
		if damage := v.damage.Swap(nil); damage != nil {
			v.withdraw()
			if err := v.rebuild(ctx, *damage); err != nil {
				return err
			}
		}
		more, err := v.advance(ctx)
		must, serve := unusable(err)
		if must && !serve {
			v.withdraw()
		}
		if must && !rebuilt { // a second rebuild in a row would begin a busy loop
			if err = v.rebuild(ctx, err.Error()); err == nil {
				rebuilt = true
				continue
			}
		}
		if err != nil || !more {
			return err
		}
	}
	return ctx.Err()
}

// advance takes one step: it opens the file or flushes one part of the feed.
func (v *View) advance(ctx context.Context) (more bool, err error) {
	if v.db != nil {
		return v.flush()
	}
	err = v.resume(ctx)
	if errors.Is(err, errRebuildRequested) {
		return true, nil
	}
	if err == nil {
		err = remove(v.path + newSuffix) // left by a rebuild that a crash ended
	}
	return true, err
}

// resume opens the existing file if the view can continue it. It also opens a file that is merely old, so
// that the file answers queries until the next flush finds that the view must rebuild it.
func (v *View) resume(ctx context.Context) (err error) {
	if _, err := os.Stat(v.path); errors.Is(err, fs.ErrNotExist) {
		return stale("there is no file")
	}
	if err := whole(v.path); err != nil {
		return err
	}
	db, err := open(v.path, v.o.Readers)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.close())
		}
	}()
	c, nextDocument, err := db.loadCursor()
	if err != nil {
		return err
	}
	if err := v.awaitReplay(ctx, &c); err != nil {
		return err
	}
	snap := v.store.Snapshot()
	defer func() { err = errors.Join(err, snap.Close()) }()
	known, err := c.precedes(snap)
	if err != nil {
		return err
	}
	first := snap.Head().GetFeedFirstSeq()
	switch {
	case !known:
		return stale("the last entry it has seen, index %d, is no longer in the feed to be compared: the feed starts at %d", c.seen.index, first)
	case c.seen.index == 0 && c.old(snap.Head()) != nil:
		return stale("it has seen nothing, and the feed starts at %d", first)
	}
	// The entries after the history mark made no events, so the store may have lost them unnoticed.
	c.index = min(c.index, c.seen.index)
	toNs, err := c.shownTo(snap)
	if err != nil {
		return err
	}
	v.reach(clock(), snap.Head(), toNs)
	v.behindSince.Store(v.reached.Load())
	v.use(db, c, nextDocument)
	return nil
}

// shownTo returns the clock up to which the file shows everything that snap holds. That is the clock of the
// first entry that the file lacks or, if it lacks none, of the store. If the feed does not reach back to that
// entry, it is the clock of the file's last entry.
func (c *cursor) shownTo(snap *state.Snapshot) (int64, error) {
	if c.old(snap.Head()) != nil {
		return c.clockNs, nil
	}
	missing, err := lastItem(snap, c.seq+1)
	if err != nil || missing.Entry == nil {
		return snap.Head().GetClockNs(), err
	}
	return missing.Entry.ClockNs, nil
}

// awaitReplay returns nil once the store has reached the file's history mark. It returns a staleError if the
// store cannot reach the mark or stands still for the replay limit, and errRebuildRequested.
//
// After a crash the store replays its log from its last flush, so the file is ahead of the store. The view
// does not query the file meanwhile, because the file shows jobs that the store does not know yet and may
// have lost.
func (v *View) awaitReplay(ctx context.Context, c *cursor) error {
	timeout := time.NewTimer(v.limits.replay)
	defer timeout.Stop()
	tick := time.NewTicker(v.o.FlushEvery) // because entries without events do not notify the view
	defer tick.Stop()
	for at, logged := v.store.Head().GetIndex(), false; ; {
		head := v.store.Head()
		wait, err := c.compare(head)
		if err != nil || !wait {
			return err
		}
		if !logged {
			v.log.Info("the view waits for the store to replay its log", "view_index", c.seen.index, "store_index", head.GetIndex())
			logged = true
		}
		if head.GetIndex() != at {
			at = head.GetIndex()
			timeout.Reset(v.limits.replay)
		}
		select {
		case <-v.grown:
		case <-tick.C:
		case <-v.prompted:
			if v.rebuildRequested() {
				return errRebuildRequested
			}
		case <-timeout.C:
			return stale("it has seen index %d, and the store has stood at %d for %v", c.seen.index, at, v.limits.replay)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// use makes db the file that the flusher writes and readers query.
func (v *View) use(db *database, c cursor, nextDocument uint64) {
	v.db, v.cursor, v.nextDocument = db, c, nextDocument
	v.swap.Lock()
	v.current = db
	v.swap.Unlock()
	v.publish(c.position)
}

// flush projects one part of the feed and reports whether more is left.
func (v *View) flush() (more bool, err error) {
	if err := v.db.present(); err != nil {
		return false, err
	}
	looked := clock()
	defer func() {
		if !more && err == nil {
			v.caughtUp(looked)
		}
	}()
	snap := v.store.Snapshot()
	defer func() { err = errors.Join(err, snap.Close()) }()
	// A snapshot of the group may have replaced the store's content, so the flusher checks the history again.
	// It accepts a feed that no longer holds the history mark, because the store trims the feed up to the
	// position that the view has read.
	if _, err := v.cursor.precedes(snap); err != nil {
		return false, err
	}
	head := snap.Head()
	if err := v.cursor.old(head); err != nil {
		return false, err
	}
	if head.GetFeedNextSeq() == v.cursor.seq {
		return false, v.flushWithoutEvents(snap)
	}
	changed, err := readChanges(snap, v.cursor)
	if err != nil {
		return false, err
	}
	// changes.write writes jobs in the order of their numbers, which is roughly the order of their ids, so one
	// iterator reads them with short steps.
	records, err := snap.JobIterator()
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, records.Close()) }()
	next := changed.next
	next.incarnation = head.GetIncarnation()
	if next.seen, err = newest(snap); err != nil {
		return false, err
	}
	if more = next.seq < head.GetFeedNextSeq(); !more {
		next.index = head.GetIndex()
	}
	_, behind := v.Lag()
	if err := v.db.writer.transact(func() error {
		if err := changed.write(v.db.writer, records, v.nextDocument, jobsBetweenYields(behind)); err != nil {
			return err
		}
		if err := v.db.writer.saveTimeRanges(); err != nil {
			return err
		}
		if err := v.db.writer.followUsage(snap, changed.next.clockNs); err != nil {
			return err
		}
		if err := v.db.writer.followAudit(snap); err != nil {
			return err
		}
		if err := v.db.writer.followKeys(snap); err != nil {
			return err
		}
		return v.db.writer.saveCursor(next)
	}); err != nil {
		return false, fmt.Errorf("flush the events from %d to %d: %w", v.cursor.seq, next.seq, err)
	}
	v.measurePace(next.seq-v.cursor.seq, clock()-looked)
	v.cursor = next
	v.rates.add(changed.counts)
	v.shown.Store(clock())
	v.nextDocument = max(v.nextDocument, changed.nextDocument())
	v.reach(looked, head, changed.next.clockNs)
	v.publish(next.position)
	if !more {
		if err := v.scrub(records); err != nil {
			return false, err
		}
	}
	return more, v.db.boundLog()
}

// flushWithoutEvents copies the changes that make no events: trimmed usage, audit records of refused
// requests, and API keys. Other entries without events change nothing that a view shows.
func (v *View) flushWithoutEvents(snap *state.Snapshot) error {
	head, w := snap.Head(), v.db.writer
	if err := w.forgetUsage(head); err != nil {
		return err
	}
	if w.behindAudit(head) {
		if err := w.transact(func() error { return w.followAudit(snap) }); err != nil {
			return fmt.Errorf("follow the audit log: %w", err)
		}
	}
	if w.behindKeys(snap) {
		if err := w.transact(func() error { return w.followKeys(snap) }); err != nil {
			return fmt.Errorf("follow the API keys: %w", err)
		}
	}
	v.cursor.index, v.cursor.incarnation = head.GetIndex(), head.GetIncarnation()
	v.publish(v.cursor.position)
	return nil
}
