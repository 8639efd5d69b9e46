package view

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

const (
	// retryDelay is how long a failed projection waits before it tries again.
	retryDelay = time.Second
	// replayPatience is how long a file that is ahead of its store is kept,
	// unused, for the store to replay its log; then it is built again.
	replayPatience = 10 * time.Second
)

// run is the flusher.
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

// setFailure notes health and its changes, not every repetition.
func (v *View) setFailure(err error) {
	v.mu.Lock()
	was := v.failure
	v.failure = err
	v.mu.Unlock()
	switch {
	case err != nil && was == nil:
		v.log.Error("the view does not follow; trying again", "error", err)
	case err == nil && was != nil:
		v.log.Info("the view follows again")
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

// pause waits until there is something to flush and then gives the feed time to
// gather more, unless a reader waits.
func (v *View) pause(ctx context.Context) {
	gather := time.NewTimer(v.o.FlushEvery)
	defer gather.Stop()
	select {
	case <-v.grown:
	case <-v.prompted:
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-gather.C:
	case <-v.prompted:
	case <-ctx.Done():
	}
}

// catchUp brings the file to the end of the feed, building it where it must.
func (v *View) catchUp(ctx context.Context) error {
	rebuilt := false
	for ctx.Err() == nil {
		if asked := v.takeAsked(); len(asked) > 0 {
			v.answer(asked, v.rebuild(ctx, "it was asked for"))
		}
		if doubt := v.doubt.Swap(nil); doubt != nil {
			v.withdraw()
			if err := v.rebuild(ctx, *doubt); err != nil {
				return err
			}
		}
		more, err := v.advance(ctx)
		must, serve := unusable(err)
		if must && !serve {
			v.withdraw()
		}
		if must && !rebuilt { // twice in a row would be a busy loop
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

// advance takes one step: it opens the file, or flushes one batch.
func (v *View) advance(ctx context.Context) (more bool, err error) {
	if v.db == nil {
		return true, v.resume(ctx)
	}
	return v.flush()
}

// resume opens the file there is and finds out whether it can be continued.
func (v *View) resume(ctx context.Context) (err error) {
	if err := remove(v.path + newSuffix); err != nil { // a rebuild that a crash ended
		return err
	}
	if _, err := os.Stat(v.path); errors.Is(err, fs.ErrNotExist) {
		return stale("there is no file")
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
	if err := c.check(snap.Head()); err != nil {
		return err
	}
	if err := c.sameHistory(snap); err != nil {
		return err
	}
	v.use(db, c, nextDocument)
	return nil
}

// awaitReplay gives a store that is behind the file the time to catch up. A
// store that never comes to where the file is has lost what the file shows.
func (v *View) awaitReplay(ctx context.Context, c *cursor) error {
	patience := time.NewTimer(v.patience.replay)
	defer patience.Stop()
	for c.ahead(v.store.Head()) {
		tick := time.NewTimer(v.o.FlushEvery) // entries without events do not notify
		select {
		case <-v.grown:
		case <-tick.C:
		case <-patience.C:
			tick.Stop()
			return nil // and check says why
		case <-ctx.Done():
			tick.Stop()
			return ctx.Err()
		}
		tick.Stop()
	}
	return nil
}

// use makes db the file that is followed and queried.
func (v *View) use(db *database, c cursor, nextDocument uint64) {
	v.db, v.cursor, v.nextDocument = db, c, nextDocument
	v.swap.Lock()
	v.current = db
	v.swap.Unlock()
	v.publish(c.position)
}

// flush projects one batch of the feed and reports whether there is more.
func (v *View) flush() (more bool, err error) {
	since := v.behindSince.Swap(0)
	defer func() {
		if (more || err != nil) && since != 0 {
			v.behindSince.Store(since)
		}
	}()
	if head := v.store.Head(); head.GetFeedNextSeq() == v.cursor.seq {
		if err := v.cursor.check(head); err != nil {
			return false, err
		}
		// Entries without events change nothing a view shows.
		v.cursor.index, v.cursor.incarnation = head.GetIndex(), head.GetIncarnation()
		v.publish(v.cursor.position)
		return false, nil
	}
	snap := v.store.Snapshot()
	defer func() { err = errors.Join(err, snap.Close()) }()
	head := snap.Head()
	if err := v.cursor.check(head); err != nil {
		return false, err
	}
	b, err := gather(snap, v.cursor)
	if err != nil {
		return false, err
	}
	// Jobs are written in the order of their numbers, which is about that of
	// their ids.
	records, err := snap.Sweep()
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, records.Close()) }()
	next := b.next
	next.incarnation = head.GetIncarnation()
	if more = next.seq < head.GetFeedNextSeq(); !more {
		next.index = head.GetIndex()
	}
	if err := v.db.writer.transact(func() error {
		if err := b.write(v.db.writer, records, v.nextDocument); err != nil {
			return err
		}
		return v.db.writer.saveCursor(next)
	}); err != nil {
		return false, fmt.Errorf("flush the events from %d to %d: %w", v.cursor.seq, next.seq, err)
	}
	v.cursor = next
	v.nextDocument = max(v.nextDocument, b.nextDocument())
	v.publish(next.position)
	return more, v.db.boundLog()
}
