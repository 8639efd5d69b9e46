package view

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
)

// The tests of this package use these words. A shard is a store in memory and the view that follows it,
// without a log between ops and store. commit writes one entry, and its clock is one millisecond after the
// last entry's. enqueue, fetch, ack, fail and change alter jobs as ops do, as far as the view can see. settle
// waits until the view shows every committed entry. dump returns all rows of the view, so that a view built
// step by step can be compared with a rebuilt one. reopen closes the view and opens it again; a rebuild is
// the view's own decision to start from the store, and the log tells its reason.

const (
	evEnqueued     = state.EventType_EVENT_ENQUEUED
	evScheduled    = state.EventType_EVENT_SCHEDULED
	evStarted      = state.EventType_EVENT_STARTED
	evProgress     = state.EventType_EVENT_PROGRESS
	evCheckpointed = state.EventType_EVENT_CHECKPOINTED
	evFailed       = state.EventType_EVENT_FAILED
	evRetrying     = state.EventType_EVENT_RETRYING
	evCompleted    = state.EventType_EVENT_COMPLETED
	evDead         = state.EventType_EVENT_DEAD
	evReclaimed    = state.EventType_EVENT_RECLAIMED
	evPromoted     = state.EventType_EVENT_PROMOTED
	evReturned     = state.EventType_EVENT_RETURNED
	evRenewed      = state.EventType_EVENT_RENEWED
	evPaused       = state.EventType_EVENT_QUEUE_PAUSED
	evChanged      = state.EventType_EVENT_QUEUE_CHANGED
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// shard is a store and the view that follows it.
type shard struct {
	t           testing.TB
	store       *state.Store
	incarnation entry.Incarnation
	dir         string
	logged      *logBuffer
	view        *View
	limits      timeLimits
	flushEvery  time.Duration
	ids         int
}

// newShard opens an empty store in memory and a view in a directory.
func newShard(t testing.TB) *shard {
	t.Helper()
	h := &shard{
		t: t, incarnation: entry.Incarnation{7}, dir: t.TempDir(), logged: &logBuffer{},
		// Queries have a minute, because the machine may be busy.
		limits: timeLimits{replay: replayTimeout, query: time.Minute, search: searchLimits{time: time.Minute, rows: searchRows, few: maxRange}, count: searchLimits{time: time.Minute, rows: countRows}}, flushEvery: 10 * time.Millisecond,
	}
	h.store = h.openStore()
	t.Cleanup(func() { must(t, h.store.Close()) })
	h.openView()
	t.Cleanup(func() {
		if h.view != nil {
			h.closeView()
		}
	})
	return h
}

func (h *shard) openStore() *state.Store {
	h.t.Helper()
	store, err := state.Open("store", state.Options{FS: vfs.NewMem()})
	must(h.t, err)
	// The hook outlives each view that a test opens and closes.
	notify := func() {
		if h.view != nil {
			h.view.Notify()
		}
	}
	store.SetHooks(state.Hooks{OnFeed: notify, OnAudit: notify})
	return store
}

func (h *shard) openView() {
	h.t.Helper()
	h.logged.Reset()
	h.view = start(h.dir, h.store, h.options(), h.limits)
}

func (h *shard) options() Options {
	return Options{Logger: slog.New(slog.NewTextHandler(h.logged, nil)), FlushEvery: h.flushEvery, Readers: 1}
}

func (h *shard) closeView() {
	h.t.Helper()
	must(h.t, h.view.Close())
	h.view = nil
}

// reopen closes the view, calls between, and opens the view again.
func (h *shard) reopen(between func()) {
	h.t.Helper()
	h.closeView()
	if between != nil {
		between()
	}
	h.openView()
}

func (h *shard) file() string { return filepath.Join(h.dir, fileName) }

// commit writes an entry whose clock is one millisecond after the last entry's, and returns its index.
func (h *shard) commit(change func(tx *state.Tx)) uint64 {
	h.t.Helper()
	head := h.store.Head()
	return h.commitAt(max(head.Term, 1), head.ClockNs+int64(time.Millisecond), change)
}

func (h *shard) commitAt(term uint64, clockNs int64, change func(tx *state.Tx)) uint64 {
	h.t.Helper()
	head := h.store.Head()
	tx := h.store.Begin(entry.Applied{Group: "g", Incarnation: h.incarnation, Index: head.Index + 1, Term: term},
		entry.Header{Incarnation: h.incarnation, ClockNs: clockNs})
	change(tx)
	must(h.t, tx.Commit())
	return head.Index + 1
}

// settle waits until the view shows every committed entry.
func (h *shard) settle() {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // because the machine may be busy
	defer cancel()
	err := h.view.Wait(ctx, h.store.Head().Index)
	if err != nil {
		h.t.Fatalf("%v; the view's error: %v; its log:\n%s", err, h.view.Err(), h.logged)
	}
}

func (h *shard) dump() string {
	h.t.Helper()
	h.settle()
	var out bytes.Buffer
	must(h.t, h.view.Dump(context.Background(), &out))
	return out.String()
}

// newID returns ids that sort in the order in which it returns them.
func (h *shard) newID() job.ID {
	h.ids++
	var id job.ID
	binary.BigEndian.PutUint64(id[:8], uint64(h.ids)<<16)
	id[15] = 1
	return id
}

// newJob returns a job that the store does not have yet.
func (h *shard) newJob(tx *state.Tx, queue string) *job.Job {
	id := h.newID()
	return &job.Job{Id: id[:], Queue: queue, State: job.Pending, Priority: job.Normal, CreatedNs: tx.ClockNs(),
		Retry: &job.Retry{MaxAttempts: 3, Backoff: job.BackoffExponential, BaseDelayMs: 5000, MaxDelayMs: 600_000}}
}

func payload(s string) *job.Blob { return &job.Blob{Data: []byte(s)} }

// enqueue creates n pending jobs in one entry.
func (h *shard) enqueue(queue string, n int) (ids []job.ID) {
	h.t.Helper()
	h.commit(func(tx *state.Tx) {
		for range n {
			tx.EnsureQueue(queue)
			j := h.newJob(tx, queue)
			must(h.t, tx.PutBlob(j, job.Payload, payload(fmt.Sprintf(`{"n":%d}`, h.ids))))
			must(h.t, tx.CreateJob(j, evEnqueued))
			ids = append(ids, job.ID(j.Id))
		}
	})
	return ids
}

// change edits a stored job in an entry of its own.
func (h *shard) change(id job.ID, edit func(tx *state.Tx, j *job.Job), events ...state.EventType) {
	h.t.Helper()
	h.commit(func(tx *state.Tx) { h.edit(tx, id, edit, events...) })
}

func (h *shard) edit(tx *state.Tx, id job.ID, edit func(tx *state.Tx, j *job.Job), events ...state.EventType) {
	h.t.Helper()
	j, err := tx.Job(id)
	must(h.t, err)
	edit(tx, j)
	must(h.t, tx.PutJob(j, events...))
}

// The functions that follow change a job as the ops do, as far as the view can see.

func (h *shard) fetch(id job.ID, worker string) {
	h.t.Helper()
	h.change(id, fetched(worker), evStarted)
}

func fetched(worker string) func(*state.Tx, *job.Job) {
	return func(tx *state.Tx, j *job.Job) {
		j.State, j.Attempt, j.StartedNs = job.Active, j.Attempt+1, tx.ClockNs()
		j.Lease = &job.Lease{Token: make([]byte, 16), WorkerId: worker, Hostname: "host-" + worker,
			ExpiresNs: tx.ClockNs() + int64(time.Minute), LengthMs: 60_000}
	}
}

func (h *shard) ack(id job.ID, result string) {
	h.t.Helper()
	h.change(id, func(tx *state.Tx, j *job.Job) {
		j.State, j.CompletedNs = job.Completed, tx.ClockNs()
		if result != "" {
			must(h.t, tx.PutBlob(j, job.Result, payload(result)))
		}
	}, evCompleted)
}

func (h *shard) fail(id job.ID, to job.State, text string) {
	h.t.Helper()
	events := []state.EventType{evFailed, evRetrying}
	if to == job.Dead {
		events[1] = evDead
	}
	h.change(id, func(tx *state.Tx, j *job.Job) {
		j.State, j.FailedNs = to, tx.ClockNs()
		if to == job.Retrying {
			j.ScheduledNs = tx.ClockNs() + int64(time.Second)
		}
		must(h.t, tx.PutError(j, &job.AttemptError{Attempt: j.Attempt, Error: text, CreatedNs: tx.ClockNs(), WorkerId: j.Lease.GetWorkerId(), StartedNs: j.StartedNs}))
	}, events...)
}

// logBuffer collects the lines of a view's log.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logBuffer) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf.Reset()
}

// rebuilt returns the number of rebuilds in the log whose reason contains the text.
func (l *logBuffer) rebuilt(reason string) (n int) {
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, "the view is rebuilt") && strings.Contains(line, reason) {
			n++
		}
	}
	return n
}

func (l *logBuffer) has(text string) bool { return strings.Contains(l.String(), text) }

// eventually waits until a condition holds that another goroutine brings about.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

// copyFiles copies a view's files as a kill would leave them.
func copyFiles(t testing.TB, from, to string) {
	t.Helper()
	path := filepath.Join(from, fileName)
	for _, name := range append(files(path), path+openSuffix) {
		data, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue
		}
		must(t, err)
		must(t, os.WriteFile(filepath.Join(to, filepath.Base(name)), data, 0o600))
	}
}

func jsonText(v any) (string, error) {
	text, err := json.Marshal(v)
	return string(text), err
}
