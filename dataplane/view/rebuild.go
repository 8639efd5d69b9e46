package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// chunkJobs is the number of jobs that one transaction of a rebuild writes.
const chunkJobs = 20_000

// newSuffix marks a file that is still being built.
const newSuffix = ".new"

// errClosed is the error for callers that wait on a view that is being closed.
var errClosed = errors.New("the view is closed")

// Rebuild builds the view again from the store and returns when the new file is in use. Until then the old
// file, if there is one, answers queries. The end of ctx ends the wait, not the rebuild. Rebuild fails once the
// view is closed.
func (v *View) Rebuild(ctx context.Context) error {
	done := make(chan error, 1)
	v.mu.Lock()
	if v.closed {
		v.mu.Unlock()
		return errClosed
	}
	v.rebuildRequests = append(v.rebuildRequests, done)
	v.mu.Unlock()
	signal(v.prompted)
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (v *View) rebuildRequested() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.rebuildRequests) > 0
}

func (v *View) takeRebuildRequests() []chan error {
	v.mu.Lock()
	defer v.mu.Unlock()
	requests := v.rebuildRequests
	v.rebuildRequests = nil
	return requests
}

func (v *View) answer(requests []chan error, err error) {
	for _, done := range requests {
		done <- err
	}
}

// rebuild builds a new file from a snapshot and replaces the old file by it.
//
// One long transaction in the old file was rejected. A new file also replaces a broken one, and needs neither
// a log as large as the data nor a sync before it is complete.
func (v *View) rebuild(ctx context.Context, reason string) error {
	v.building.Store(true)
	defer v.building.Store(false)
	v.log.Info("the view is rebuilt", "reason", reason)
	began, looked := time.Now(), clock()
	fresh := v.path + newSuffix
	jobs, err := v.build(ctx, fresh)
	if err != nil {
		return errors.Join(fmt.Errorf("build the view again (%s): %w", reason, err), remove(fresh))
	}
	if err := v.replace(fresh); err != nil {
		return fmt.Errorf("put the new view in place: %w", err)
	}
	v.reached.Store(looked)
	v.log.Info("the view was rebuilt", "jobs", jobs, "duration", time.Since(began).Round(time.Millisecond))
	return nil
}

// build writes a complete file at path. Its last transaction writes the cursor.
func (v *View) build(ctx context.Context, path string) (jobs int, err error) {
	db, err := create(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	snap := v.store.Snapshot()
	defer func() { err = errors.Join(err, snap.Close()) }()

	if jobs, err = load(ctx, db.writer, snap); err != nil {
		return jobs, err
	}
	if err = loadUsage(ctx, db.writer, snap); err != nil {
		return jobs, err
	}
	if err = loadAudit(ctx, db.writer, snap); err != nil {
		return jobs, err
	}
	if err = db.writer.transact(func() error { return db.writer.followKeys(snap) }); err != nil {
		return jobs, err
	}
	head := snap.Head()
	c := cursor{incarnation: head.GetIncarnation(), position: position{seq: head.GetFeedNextSeq(), index: head.GetIndex()}, clockNs: head.GetClockNs()}
	if c.seen, err = newest(snap); err != nil {
		return jobs, err
	}
	return jobs, db.writer.saveCursor(c)
}

// load writes the rows of every job, queue, batch, schedule and resource.
func load(ctx context.Context, w *writer, snap *state.Snapshot) (jobs int, err error) {
	records, err := snap.JobIterator()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, records.Close()) }()
	for chunk, err := range readAhead(jobChunks(snap)) {
		if err != nil {
			return jobs, err
		}
		jobs += len(chunk)
		if err := w.transact(func() error { return loadChunk(ctx, w, records, chunk) }); err != nil {
			return jobs, err
		}
	}
	// The last transaction writes the queues, batches, schedules and resources.
	return jobs, w.transact(func() error {
		for q, err := range snap.Queues() {
			if err != nil {
				return err
			}
			if err := w.queue(q); err != nil {
				return fmt.Errorf("queue %q: %w", q.Name, err)
			}
		}
		return loadRecords(w, snap)
	})
}

// jobChunks yields all jobs, by chunks for one transaction each. The snapshot yields jobs in the order of their
// ids. Concurrent requests get ids and numbers in different orders, and SQLite begins a new segment of the full
// text wherever a number is lower than the one before, so each chunk is sorted by number.
func jobChunks(snap *state.Snapshot) iter.Seq2[[]*loadedJob, error] {
	return func(yield func([]*loadedJob, error) bool) {
		var chunk []*loadedJob
		ready := func() bool {
			slices.SortFunc(chunk, func(a, b *loadedJob) int { return cmp.Compare(a.number, b.number) })
			full := chunk
			chunk = nil
			return yield(full, nil)
		}
		for j, err := range snap.Jobs() {
			var id job.ID
			if err == nil {
				id, err = job.IDFromBytes(j.Id)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			chunk = append(chunk, &loadedJob{touchedJob: touchedJob{id: id}, number: j.Number, fresh: true, job: j})
			if len(chunk) == chunkJobs && !ready() {
				return
			}
		}
		ready()
	}
}

// loadChunk writes the rows of a chunk of jobs.
func loadChunk(ctx context.Context, w *writer, records *state.JobIterator, chunk []*loadedJob) error {
	for part, err := range readAhead(loadJobs(records, chunk)) {
		if err != nil {
			return err
		}
		for _, l := range part {
			if _, err := w.job(records.Snapshot, l); err != nil {
				return fmt.Errorf("job %s: %w", l.id, err)
			}
		}
	}
	if err := w.putRows(); err != nil {
		return err
	}
	if err := w.saveTimeRanges(); err != nil {
		return err
	}
	return ctx.Err()
}

// replace closes the file in use and opens the new one under its name. Queries wait meanwhile. A crash in
// between leaves the old file, the new one or none.
func (v *View) replace(fresh string) error {
	if err := syncFile(fresh); err != nil {
		return err
	}
	v.swap.Lock()
	defer v.swap.Unlock()
	if old := v.db; old != nil {
		v.db, v.current = nil, nil
		if err := old.close(); err != nil {
			// The old file may be the broken one that this rebuild replaces, and install deletes it next.
			v.log.Warn("the old view's file could not be closed", "error", err)
		}
	}
	db, c, nextDocument, err := v.install(fresh)
	if err != nil {
		v.publish(position{})
		return err
	}
	v.db, v.current, v.cursor, v.nextDocument = db, db, c, nextDocument
	v.publish(c.position)
	return nil
}

// install deletes the old file, gives the new one its name and opens it.
func (v *View) install(fresh string) (db *database, c cursor, nextDocument uint64, err error) {
	if err = remove(v.path); err == nil {
		err = os.Rename(fresh, v.path)
	}
	if err == nil {
		err = syncFile(filepath.Dir(v.path))
	}
	if err == nil {
		db, err = open(v.path, v.o.Readers)
	}
	if err != nil {
		return nil, cursor{}, 0, err
	}
	if c, nextDocument, err = db.loadCursor(); err != nil {
		return nil, cursor{}, 0, errors.Join(err, db.close())
	}
	return db, c, nextDocument, nil
}

// syncFile makes a file, or the names in a directory, durable.
func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
