package op_test

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// A member that has moved to another shard settles there. Its batch counts it once, however often the
// delivery comes, and the callback is created on the shard of its queue.
func TestAMovedMemberIsCounted(t *testing.T) {
	t.Parallel()
	shards := newShards(t, 3)
	w := &world{t: t, clockNs: epochNs}
	made := w.newBatch("q", 2, &op.NewBatch{CallbackQueue: "done", CallbackShard: 2, CallbackPayload: &job.Blob{Data: []byte(`{"x":1}`)}})
	shards[0].must(made)
	batch := [16]byte(made.Meta.Ids[2])
	counts := func(succeeded uint64, complete bool) {
		t.Helper()
		b, err := shards[0].store.Batch(batch)
		if err != nil {
			t.Fatal(err)
		}
		if b.Succeeded != succeeded || b.Settled() != succeeded || (b.CompletedNs > 0) != complete {
			t.Fatalf("the batch is %v, want %d succeeded, complete %v", b, succeeded, complete)
		}
	}
	shards[0].move("far", 1, job.ID(made.Meta.Ids[0]))
	shards[0].must(ack(shards[0].must(w.fetch("q", 1)).(*op.FetchResult).Jobs...))
	counts(1, false)

	shards[0].deliver(shards[1], 0, 10)
	leased := shards[1].must(w.fetch("far", 1)).(*op.FetchResult).Jobs
	shards[1].must(ack(leased...))
	shards[1].must(ack(leased...))
	counts(1, false)
	for range 3 {
		shards[1].deliver(shards[0], 0, 10)
	}
	counts(2, true)

	for range 2 {
		shards[0].deliver(shards[2], 0, 10)
	}
	callback := shards[2].must(w.fetch("done", 9)).(*op.FetchResult).Jobs
	if len(callback) != 1 {
		t.Fatalf("%d callbacks were made", len(callback))
	}
	is := read(t, shards[2], job.ID(callback[0].Id))
	if string(is.payload.Data) != `{"x":1}` || is.job.Batch != nil {
		t.Errorf("the callback is %v with %v", is.job, is.payload)
	}
	o := is.job.Origin
	if o.Kind != job.OriginKind_ORIGIN_KIND_BATCH || [16]byte(o.BatchId) != batch {
		t.Errorf("the callback is of %v", o)
	}
	if o.Total != 2 || o.Succeeded != 2 {
		t.Errorf("the callback is told of %d jobs, %d succeeded", o.Total, o.Succeeded)
	}
}

// Batches in random histories: members of other batches, members moved between shards and settled in every
// way, several in an entry, and every entry repeated. The counts of a batch always match its members, and
// each batch that ends has one callback.
func TestBatchesCountTheirMembers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		h := &batchHistory{t: rt, w: &world{t: t, clockNs: epochNs}, shards: []*shard{openShard(t, 0), openShard(t, 1)}}
		defer h.close()
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			h.step()
		}
		h.recount()
		h.end()
	})
}

// batchHistory is a random history of two shards, each with a queue of its number.
type batchHistory struct {
	t       *rapid.T
	w       *world
	shards  []*shard
	batches []known
	leased  [2][]*op.Leased
	last    [2]op.Op // the last op that each shard applied
}

// known is a created batch and its shard.
type known struct {
	id    []byte
	shard int
}

func (h *batchHistory) close() {
	for _, s := range h.shards {
		s.close()
	}
}

// step applies an entry with any ops. A refused op is fine.
func (h *batchHistory) step() {
	on := rapid.IntRange(0, 1).Draw(h.t, "shard")
	s := h.shards[on]
	var o op.Op
	switch step := rapid.SampledFrom([]string{"make", "add", "seal", "fetch", "fetch", "settle", "settle", "move", "deliver", "again", "recount"}).Draw(h.t, "step"); step {
	case "make":
		o = h.make(on)
	case "add":
		add := h.jobs(on)
		add.BatchId = h.pick(on)
		o = add
	case "seal":
		o = &op.SealBatch{BatchId: h.pick(on)}
	case "fetch":
		h.fetch(on, rapid.Uint32Range(1, 4).Draw(h.t, "count"))
		return
	case "settle":
		h.settle(on)
		return
	case "move":
		h.move(on)
		return
	case "deliver":
		s.deliver(h.shards[1-on], 0, rapid.IntRange(1, 5).Draw(h.t, "most"))
		return
	case "again":
		if o = h.last[on]; o == nil {
			return
		}
	case "recount":
		h.recount()
		return
	}
	h.last[on] = o
	if o.Validate() == nil {
		s.entry(o)
	}
}

func queueOf(shard int) string { return fmt.Sprint("q", shard) }

// jobs builds an enqueue of a few jobs, some with more than one attempt.
func (h *batchHistory) jobs(on int) *op.Enqueue {
	o := h.w.newJobs(queueOf(on), rapid.IntRange(1, 3).Draw(h.t, "jobs"))
	for _, nj := range o.Jobs {
		nj.Retry.MaxAttempts = rapid.Uint32Range(1, 2).Draw(h.t, "attempts")
		nj.Retry.Backoff = job.BackoffNone
	}
	return o
}

// pick returns the id of a batch on a shard, or of none.
func (h *batchHistory) pick(on int) []byte {
	var ids [][]byte
	for _, b := range h.batches {
		if b.shard == on {
			ids = append(ids, b.id)
		}
	}
	if len(ids) == 0 {
		return make([]byte, 16)
	}
	return rapid.SampledFrom(ids).Draw(h.t, "batch")
}

func (h *batchHistory) make(on int) op.Op {
	o := h.jobs(on)
	id := h.w.newID(queueOf(on))
	back := rapid.IntRange(0, 1).Draw(h.t, "callback shard")
	o.Meta.Ids = append(o.Meta.Ids, id[:])
	o.Batch = &op.NewBatch{
		Open: rapid.Bool().Draw(h.t, "open"), CallbackQueue: fmt.Sprint("done", back), CallbackShard: uint32(back),
	}
	if rapid.Bool().Draw(h.t, "nested") {
		o.Batch.ParentId = h.pick(on)
	}
	h.batches = append(h.batches, known{id[:], on})
	return o
}

func (h *batchHistory) fetch(on int, n uint32) {
	result := h.shards[on].must(h.w.fetch(queueOf(on), n)).(*op.FetchResult)
	h.leased[on] = append(h.leased[on], result.Jobs...)
}

// settle ends some attempts in one entry, by an op for each or one for several.
func (h *batchHistory) settle(on int) {
	n := rapid.IntRange(0, min(4, len(h.leased[on]))).Draw(h.t, "settled")
	some := h.leased[on][:n]
	h.leased[on] = h.leased[on][n:]
	var ops []op.Op
	for _, l := range some {
		if rapid.Bool().Draw(h.t, "succeeds") {
			ops = append(ops, ack(l))
		} else {
			ops = append(ops, &op.Fail{Items: []*op.FailItem{{Proof: &op.LeaseProof{Id: l.Id, Token: l.LeaseToken}, Error: "no"}}})
		}
	}
	if n > 0 && rapid.Bool().Draw(h.t, "together") {
		ops = []op.Op{ack(some...)}
	}
	if len(ops) == 0 {
		return
	}
	h.shards[on].entry(ops...)
	h.last[on] = ops[0]
}

// move moves a job of a shard to the other shard.
func (h *batchHistory) move(on int) {
	var ids []job.ID
	h.each(on, func(j *job.Job) {
		if j.State != job.Active && j.Batch != nil {
			ids = append(ids, job.ID(j.Id))
		}
	})
	if len(ids) > 0 {
		h.shards[on].move(queueOf(1-on), uint32(1-on), rapid.SampledFrom(ids).Draw(h.t, "job"))
	}
}

func (h *batchHistory) each(on int, do func(*job.Job)) {
	v := h.shards[on].store.Snapshot()
	defer v.Close()
	for j, err := range v.Jobs() {
		if err != nil {
			h.t.Fatal(err)
		}
		do(j)
	}
}

// quiesce delivers everything that waits in an outbox.
func (h *batchHistory) quiesce() {
	for range 2 { // a count that arrives may send a callback back
		for on, s := range h.shards {
			s.deliver(h.shards[1-on], 0, 10_000)
		}
	}
}

// recount compares every batch with its members.
func (h *batchHistory) recount() {
	h.quiesce()
	counted, callbacks := map[[16]byte]*state.Batch{}, map[[16]byte]int{}
	of := func(id []byte) *state.Batch {
		if counted[[16]byte(id)] == nil {
			counted[[16]byte(id)] = &state.Batch{}
		}
		return counted[[16]byte(id)]
	}
	for on := range h.shards {
		h.each(on, func(j *job.Job) {
			if j.Origin != nil {
				callbacks[[16]byte(j.Origin.BatchId)]++
			}
			if j.Batch != nil {
				tally(of(j.Batch.BatchId), j.State, j.State.Settled())
			}
		})
	}
	for _, b := range slices.Backward(h.batches) { // members were created after their batches
		rec := h.batch(b)
		if rec == nil {
			continue // it was refused
		}
		want := of(b.id)
		got := &state.Batch{Total: rec.Total, Succeeded: rec.Succeeded, Failed: rec.Failed, Cancelled: rec.Cancelled}
		if !proto.Equal(want, got) {
			h.t.Fatalf("batch %x counts %v, its members are %v", b.id, got, want)
		}
		complete := !rec.Open && rec.Settled() == rec.Total
		if (rec.CompletedNs > 0) != complete || (rec.PurgeNs > 0) != complete || callbacks[[16]byte(b.id)] != map[bool]int{true: 1}[complete] {
			h.t.Fatalf("batch %x is %v and has called back %d times", b.id, rec, callbacks[[16]byte(b.id)])
		}
		if len(rec.ParentId) > 0 {
			outcome := job.Dead
			if rec.Succeeded == rec.Total {
				outcome = job.Completed
			}
			tally(of(rec.ParentId), outcome, complete)
		}
	}
}

// tally adds a member to the expected counts of its batch.
func tally(b *state.Batch, outcome job.State, settled bool) {
	b.Total++
	switch {
	case !settled:
	case outcome == job.Completed:
		b.Succeeded++
	case outcome == job.Dead:
		b.Failed++
	default:
		b.Cancelled++
	}
}

func (h *batchHistory) batch(b known) *state.Batch {
	rec, err := h.shards[b.shard].store.Batch([16]byte(b.id))
	if err != nil {
		h.t.Fatal(err)
	}
	return rec
}

// end settles all remaining jobs and closes every batch, after which all batches are complete.
func (h *batchHistory) end() {
	for range 4 { // a job has two attempts, and may have been on its way
		for on := range h.shards {
			h.fetch(on, job.MaxFetchJobs)
			for len(h.leased[on]) > 0 {
				h.settle(on)
			}
		}
		h.quiesce()
	}
	for _, b := range h.batches {
		if h.batch(b) == nil {
			continue
		}
		h.shards[b.shard].must(&op.SealBatch{BatchId: b.id})
	}
	h.recount()
	for _, b := range h.batches {
		if rec := h.batch(b); rec != nil && rec.CompletedNs == 0 {
			h.t.Fatalf("all has settled, and batch %x is %v", b.id, rec)
		}
	}
}
