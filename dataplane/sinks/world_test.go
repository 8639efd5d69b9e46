package sinks

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
)

// The tests of this package use these words. A world is a store, the log of its entries and the usage sink
// that reads it. report makes a worker report usage, which the world adds up by meter. The receiver is the
// far end of the sink: it applies each row once and in order, and its hooks before and after make it fail
// before or after the effect. crash drops everything that the store had not flushed, and open replays the
// log. exact compares the sums of the receiver with the reported ones. The tests of the outbox and of
// webhooks have harnesses of their own in their files.

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// meter identifies one sum of usage.
type meter struct{ queue, model, provider string }

// receiver stores usage as the real one does: only the row after its last, each once. before and after inject
// errors: an error of after is a lost answer.
type receiver struct {
	mu            sync.Mutex
	last          map[billing.Source]uint64
	sums          map[meter]*billing.Quantities
	frames        []billing.Frame
	aside         []billing.Frame
	noAside       error        // the answer of SetUsageAside
	onAside       func() error // called after a frame was set aside
	asked         int
	asks          bool // before applies only to frames; LastUsage always succeeds
	before, after func() error
}

func newReceiver() *receiver {
	return &receiver{last: map[billing.Source]uint64{}, sums: map[meter]*billing.Quantities{}}
}

func fault(f func() error) error {
	if f == nil {
		return nil
	}
	return f()
}

func (r *receiver) LastUsage(_ context.Context, of billing.Source) (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	if err := fault(r.before); err != nil && !r.asks {
		return 0, err
	}
	return r.last[of], fault(r.after)
}

func (r *receiver) SendUsage(_ context.Context, f billing.Frame) (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := fault(r.before); err != nil {
		return 0, err
	}
	if err := r.apply(f); err != nil {
		return 0, err
	}
	return r.last[f.Source], fault(r.after)
}

func (r *receiver) SetUsageAside(_ context.Context, f billing.Frame) (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.noAside != nil {
		return 0, r.noAside
	}
	if f.From != r.last[f.Source]+1 {
		return 0, api.Errorf(api.StateConflict, "the next row of this source is %d", r.last[f.Source]+1)
	}
	r.aside = append(r.aside, f)
	r.last[f.Source] = f.To
	return f.To, fault(r.onAside)
}

func (r *receiver) apply(f billing.Frame) error {
	if err := f.Validate(); err != nil {
		return api.Errorf(api.ValidationError, "%v", err)
	}
	if last := r.last[f.Source]; f.From != last+1 {
		return api.Errorf(api.StateConflict, "the next row of this source is %d", last+1)
	}
	for _, row := range f.Rows {
		sum := r.sums[meter{row.Queue, row.Model, row.Provider}]
		if sum == nil {
			sum = &billing.Quantities{}
			r.sums[meter{row.Queue, row.Model, row.Provider}] = sum
		}
		if err := sum.Add(row.Quantities()); err != nil {
			return err
		}
	}
	r.last[f.Source] = f.To
	r.frames = append(r.frames, f)
	return nil
}

// sent returns the number of applied frames.
func (r *receiver) sent() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.frames)
}

// world is a real store with a log, so that the store can crash: open replays the entries that were not
// flushed.
type world struct {
	t           testing.TB
	disk        *vfs.MemFS
	store       *state.Store
	machine     *op.Machine
	usage       *Usage
	receiver    *receiver
	logged      *bytes.Buffer
	mu          sync.Mutex // held while an op is applied
	log         [][]byte
	job         *op.Leased // all reports are of this job
	want        map[meter]*billing.Quantities
	onAcked     func()
	incarnation entry.Incarnation // of the entries that follow
	reported    []*job.Usage      // by report, in order
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, disk: vfs.NewCrashableMem(), receiver: newReceiver(), incarnation: entry.Incarnation{0xab}, logged: &bytes.Buffer{}, want: map[meter]*billing.Quantities{}}
	w.open()
	id := job.NewID(time.Now().UnixMilli(), "q", job.Entropy{1})
	w.mustApply(&op.Enqueue{Meta: &op.Meta{Ids: [][]byte{id[:]}}, Jobs: []*op.NewJob{{
		Queue: "q", Payload: &job.Blob{Data: []byte("{}")}, Retry: job.NewRetry(),
	}}})
	got := w.mustApply(&op.Fetch{Meta: &op.Meta{LeaseSeed: make([]byte, 16)}, Queues: []string{"q"}, Count: 1, LeaseMs: time.Hour.Milliseconds()})
	w.job = got.(*op.FetchResult).Jobs[0]
	return w
}

// open opens the store, applies the log's entries that the store lacks, and creates a sink.
func (w *world) open() {
	w.t.Helper()
	var err error
	w.store, err = state.Open("store", state.Options{FS: w.disk})
	must(w.t, err)
	w.machine = op.NewMachine(w.store)
	for i := w.store.Applied().Index; i < uint64(len(w.log)); i++ {
		_, err := w.replay(i + 1)
		must(w.t, err)
	}
	w.usage = NewUsage(UsageConfig{
		Store: w.store, Namespace: "ns_1", Stream: "shard/0", Receiver: w.receiver,
		OnAcked: func() { w.acked() }, Logger: slog.New(slog.NewTextHandler(w.logged, nil)),
	})
	w.store.SetHooks(state.Hooks{OnUsage: w.usage.OnUsage})
}

func (w *world) acked() {
	if w.onAcked != nil {
		w.onAcked()
	}
}

// crash drops the store with everything that it had not flushed, and opens it again.
func (w *world) crash() {
	w.t.Helper()
	disk := w.disk.CrashClone(vfs.CrashCloneCfg{})
	must(w.t, w.store.Close())
	w.disk = disk
	w.open()
}

func (w *world) close() {
	w.t.Helper()
	snap := w.store.Snapshot()
	must(w.t, snap.Check())
	must(w.t, snap.Close())
	must(w.t, w.store.Close())
}

func (w *world) replay(index uint64) ([]any, error) {
	e, err := entry.Decode(w.log[index-1])
	if err != nil {
		return nil, err
	}
	return w.machine.Apply(entry.Applied{Group: "ns_1/0", Incarnation: e.Incarnation, Index: index, Term: 1}, e)
}

func (w *world) apply(o op.Op) (any, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b entry.Builder
	if err := o.Validate(); err != nil {
		return nil, err
	}
	p := op.Proposal(o)
	if err := b.Add(p.Number(), p.SizeVT(), p); err != nil {
		return nil, err
	}
	w.log = append(w.log, b.Finish(entry.Header{Level: 1, Incarnation: w.incarnation, ClockNs: time.Now().UnixNano()}))
	results, err := w.replay(uint64(len(w.log)))
	if err != nil {
		return nil, err
	}
	if refused, ok := results[0].(error); ok {
		return nil, refused
	}
	return results[0], nil
}

func (w *world) mustApply(o op.Op) any {
	w.t.Helper()
	result, err := w.apply(o)
	must(w.t, err)
	return result
}

// report makes a worker report n times, with a few models, and remembers the amounts.
func (w *world) report(n int) {
	w.t.Helper()
	o := &op.Heartbeat{Meta: &op.Meta{}}
	for i := range n {
		u := &job.Usage{
			InputTokens: int64(i), OutputTokens: 3, CacheReadTokens: 1, CacheCreationTokens: 2,
			CostNanoUsd: 1_000_000_001 * int64(i+1), Model: fmt.Sprint("model-", i%3), Provider: "p",
		}
		w.expect("q", u)
		w.reported = append(w.reported, u)
		o.Items = append(o.Items, &op.HeartbeatItem{Proof: &op.LeaseProof{Id: w.job.Id, Token: w.job.LeaseToken}, Usage: u})
	}
	for _, refusal := range w.mustApply(o).(*op.HeartbeatResult).Items {
		must(w.t, refusal.Err())
	}
}

func (w *world) expect(queue string, u *job.Usage) {
	w.t.Helper()
	m := meter{queue, u.Model, u.Provider}
	if w.want[m] == nil {
		w.want[m] = &billing.Quantities{}
	}
	must(w.t, w.want[m].Add(billing.Quantities{
		billing.Reports: 1, billing.InputTokens: u.InputTokens, billing.OutputTokens: u.OutputTokens,
		billing.CacheCreationTokens: u.CacheCreationTokens, billing.CacheReadTokens: u.CacheReadTokens, billing.Cost: u.CostNanoUsd,
	}))
}

// exact compares the received amounts with the reported ones, to the last token.
func (w *world) exact() {
	w.t.Helper()
	w.receiver.mu.Lock()
	defer w.receiver.mu.Unlock()
	if len(w.receiver.sums) != len(w.want) {
		w.t.Errorf("usage by %d meters arrived, %d were reported", len(w.receiver.sums), len(w.want))
	}
	for m, want := range w.want {
		if got := w.receiver.sums[m]; got == nil || *got != *want {
			w.t.Errorf("%v: %+v arrived, %+v was reported", m, got, want)
		}
	}
}

func (w *world) source() billing.Source {
	return billing.Source{Namespace: "ns_1", Stream: "shard/0", Incarnation: "ab000000000000000000000000000000"}
}

// part is all usage of a store that was never refounded.
func (w *world) part() usagePart { return usagePart{source: w.source(), end: math.MaxUint64} }

// refound makes the store the beginning of another history.
func (w *world) refound(incarnation entry.Incarnation) {
	w.t.Helper()
	must(w.t, w.store.Flush())
	must(w.t, w.store.Close())
	must(w.t, state.Refound("store", state.Options{FS: w.disk}, incarnation, nil))
	w.incarnation = incarnation
	w.open()
}

// run runs the sink until stop is called.
func (w *world) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { w.usage.Run(ctx); close(ended) }()
	return func() { cancel(); <-ended }
}
