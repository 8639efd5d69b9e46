package op_test

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
)

func init() {
	prepare["seal-batch"] = func(w *world) op.Op {
		made := w.newBatch("q", 2, &op.NewBatch{Open: true, CallbackQueue: "done"})
		w.apply(made)
		w.apply(ack(one[*op.FetchResult](w, w.fetch("q", 2)).Jobs...))
		return &op.SealBatch{BatchId: made.Meta.Ids[2]}
	}
	prepare["purge-batches"] = func(w *world) op.Op {
		made := w.newBatch("q", 1, &op.NewBatch{CallbackQueue: "done"})
		w.apply(made)
		w.apply(ack(one[*op.FetchResult](w, w.fetch("q", 1)).Jobs...))
		w.clockNs += job.DefaultRetentionTime.Nanoseconds()
		return &op.PurgeBatches{BatchIds: made.Meta.Ids[1:]}
	}
}

// newBatch builds an enqueue of n jobs that are members of a new batch.
func (w *world) newBatch(queue string, n int, b *op.NewBatch) *op.Enqueue {
	o := w.newJobs(queue, n)
	id := w.newID(queue)
	o.Batch, o.Meta.Ids = b, append(o.Meta.Ids, id[:])
	return o
}

// A batch is created once and joined once, however often and whenever the enqueue is repeated, and its id
// stays the same.
func TestBatchesRepeat(t *testing.T) {
	t.Parallel()
	for what, make := range map[string]func(w *world) *op.Enqueue{
		"new": func(w *world) *op.Enqueue { return w.newBatch("q", 2, &op.NewBatch{CallbackQueue: "done"}) },
		"member of another": func(w *world) *op.Enqueue {
			above := w.newBatch("q", 1, &op.NewBatch{Open: true})
			w.apply(above)
			return w.newBatch("q", 1, &op.NewBatch{ParentId: above.Meta.Ids[1]})
		},
		"joined": func(w *world) *op.Enqueue {
			made := w.newBatch("q", 1, &op.NewBatch{Open: true})
			w.apply(made)
			o := w.newJobs("q", 2)
			o.BatchId = made.Meta.Ids[1]
			return o
		},
	} {
		for name, apply := range manners {
			t.Run(what+" "+name, func(t *testing.T) {
				t.Parallel()
				once, twice := newWorld(t), newWorld(t)
				o := make(once)
				first := apply(once, o, 1)
				second := apply(twice, make(twice), 2)
				answered, ok := first.(*op.EnqueueResult)
				if !ok || !proto.Equal(answered, second.(proto.Message)) {
					t.Fatalf("answered %v first and %v then", first, second)
				}
				want := o.BatchId
				if o.Batch != nil {
					want = o.Meta.Ids[len(o.Meta.Ids)-1]
				}
				if !bytes.Equal(answered.BatchId, want) {
					t.Errorf("answered batch %x, want %x", answered.BatchId, want)
				}
				if !bytes.Equal(settled(t, once), settled(t, twice)) {
					t.Error("the repeat changed the state")
				}
				twice.check()
			})
		}
	}
}

// An op at a bound passes, and an op one beyond it is refused.
func TestBatchBounds(t *testing.T) {
	t.Parallel()
	type set func(w *world, n int) op.Op
	with := func(change func(b *op.NewBatch, n int)) set {
		return func(w *world, n int) op.Op {
			o := w.newBatch("q", 1, &op.NewBatch{CallbackQueue: "done", CallbackPayload: &job.Blob{}})
			change(o.Batch, n)
			return o
		}
	}
	for _, c := range []struct {
		field  string
		at     int
		beyond api.Code
		set    set
	}{
		{"batch.callback_queue", job.MaxQueueName, api.ValidationError, with(func(b *op.NewBatch, n int) { b.CallbackQueue = long(n) })},
		{"batch.callback_payload", job.MaxBatchPayload, api.PayloadTooLarge, with(func(b *op.NewBatch, n int) { b.CallbackPayload.Data = make([]byte, n) })},
		{"batch.callback_payload", job.MaxSealKeyID, api.ValidationError, with(func(b *op.NewBatch, n int) { b.CallbackPayload.KeyId = long(n) })},
		{"batch.callback_shard", job.Slots - 1, api.ValidationError, with(func(b *op.NewBatch, n int) { b.CallbackShard = uint32(n) })},
		{"batch.parent_id", 16, api.ValidationError, with(func(b *op.NewBatch, n int) { b.ParentId = make([]byte, n) })},
		{"jobs", job.MaxEnqueueJobs, api.ValidationError, func(w *world, n int) op.Op { return w.newBatch("q", n, &op.NewBatch{}) }},
		{"batch_id", 16, api.ValidationError, func(w *world, n int) op.Op {
			o := w.newJobs("q", 1)
			o.BatchId = make([]byte, n)
			return o
		}},
		{"batch_id", 16, api.ValidationError, func(_ *world, n int) op.Op { return &op.SealBatch{BatchId: make([]byte, n)} }},
		{"batch_id", 16, api.ValidationError, func(_ *world, n int) op.Op {
			return &op.CountMember{BatchId: make([]byte, n), Outcome: job.Dead}
		}},
		{"batch_ids", job.MaxDutyItems, api.ValidationError, func(_ *world, n int) op.Op { return &op.PurgeBatches{BatchIds: ids(n, 16)} }},
		{"batch_ids[0]", 16, api.ValidationError, func(_ *world, n int) op.Op { return &op.PurgeBatches{BatchIds: ids(1, n)} }},
	} {
		w := &world{t: t, clockNs: epochNs}
		if err := c.set(w, c.at).Validate(); err != nil {
			t.Errorf("%s at the bound of %d: %v", c.field, c.at, err)
		}
		if err := c.set(w, c.at+1).Validate(); api.CodeOf(err) != c.beyond || problemsOf(err)[0].Field != c.field {
			t.Errorf("%s beyond the bound of %d: %v, want %s", c.field, c.at, err, c.beyond)
		}
	}
}

// A job is a member of one batch.
func TestOneBatchAtATime(t *testing.T) {
	t.Parallel()
	w := &world{t: t, clockNs: epochNs}
	o := w.newBatch("q", 1, &op.NewBatch{})
	id := w.newID("q")
	o.BatchId = id[:]
	if err := o.Validate(); api.CodeOf(err) != api.ValidationError || problemsOf(err)[0].Field != "batch" {
		t.Errorf("a new batch and another: %v", err)
	}
}

// Batches can be members of batches up to a depth. All of them end with the last member of the deepest.
func TestBatchDepth(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var all [][]byte
	under := func(above []byte) *op.Enqueue {
		return w.newBatch("q", 1, &op.NewBatch{Open: true, ParentId: above, CallbackQueue: "done"})
	}
	above := []byte(nil)
	for range job.MaxBatchDepth {
		o := under(above)
		if refused, ok := w.apply(o)[0].(error); ok {
			t.Fatalf("%d batches lie in each other: %v", len(all)+1, refused)
		}
		above = o.Meta.Ids[1]
		all = append(all, above)
	}
	refused, _ := w.apply(under(above))[0].(error)
	if api.CodeOf(refused) != api.Conflict || !strings.Contains(refused.Error(), "at most 16 deep") {
		t.Errorf("one deeper: %v", refused)
	}
	w.apply(ack(one[*op.FetchResult](w, w.fetch("q", job.MaxBatchDepth)).Jobs...))
	for _, id := range all {
		w.apply(&op.SealBatch{BatchId: id})
	}
	for i, id := range all {
		b, err := w.store.Batch([16]byte(id))
		if err != nil || b.CompletedNs == 0 || len(b.CallbackJobId) == 0 {
			t.Errorf("batch %d: %v, %v", i, b, err)
		}
		if b.Succeeded != b.Total {
			t.Errorf("batch %d: %d of %d succeeded", i, b.Succeeded, b.Total)
		}
	}
	w.check()
	w.checkReplica()
}

// The number of a batch's members is limited, jobs and batches counted together.
func TestBatchMembersBound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.newBatch("q", 1, &op.NewBatch{Open: true})
	w.apply(made)
	id := made.Meta.Ids[1]
	w.setTotal(id, job.MaxBatchMembers-3)
	join := func(n int) op.Op {
		o := w.newJobs("q", n)
		o.BatchId = id
		return o
	}
	for _, c := range []struct {
		what string
		o    op.Op
		ok   bool
	}{
		{"four where three fit", join(4), false},
		{"two", join(2), true},
		{"a batch", w.newBatch("q", 5, &op.NewBatch{ParentId: id}), true},
		{"one too many", join(1), false},
		{"a batch too many", w.newBatch("q", 5, &op.NewBatch{ParentId: id}), false},
	} {
		refused, _ := w.apply(c.o)[0].(error)
		if (refused == nil) != c.ok || refused != nil && (api.CodeOf(refused) != api.Conflict || !strings.Contains(refused.Error(), "10000000")) {
			t.Errorf("%s: %v", c.what, refused)
		}
	}
	if b, err := w.store.Batch([16]byte(id)); err != nil || b.Total != job.MaxBatchMembers {
		t.Errorf("%v, %v", b, err)
	}
	w.check()
}

// setTotal gives a batch more members than a test could create.
func (w *world) setTotal(id []byte, total uint64) {
	w.t.Helper()
	w.index++
	tx := w.store.Begin(at(w.index), entry.Header{Level: op.FeatureLevel, Incarnation: incarnation, ClockNs: w.clockNs})
	b, err := tx.Batch([16]byte(id))
	if err != nil {
		w.t.Fatal(err)
	}
	b.Total = total
	if err := tx.PutBatch(b, state.EventType_EVENT_BATCH_CHANGED); err != nil {
		w.t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		w.t.Fatal(err)
	}
}

// A batch whose enqueue created no job has nothing to wait for.
func TestSealedEmptyBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.newBatch("q", 1, &op.NewBatch{Open: true, CallbackQueue: "done"})
	w.apply(made)
	w.setTotal(made.Meta.Ids[1], 0) // as if its job had been found, not made
	b := one[*op.SealBatchResult](w, &op.SealBatch{BatchId: made.Meta.Ids[1]}).Batch
	if b.CompletedNs == 0 || len(b.CallbackJobId) == 0 || b.PurgeNs == 0 {
		t.Errorf("sealed it is %v", b)
	}
	if b.Total != 0 {
		t.Errorf("it counts %d jobs", b.Total)
	}
}
