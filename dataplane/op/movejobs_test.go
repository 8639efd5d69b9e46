package op_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
)

// shard is one of the shards of a namespace, each with a history of its own.
type shard struct {
	t       testing.TB
	number  uint32
	store   *state.Store
	machine *op.Machine
}

func newShards(t testing.TB, n int) []*shard {
	t.Helper()
	all := make([]*shard, n)
	for i := range all {
		all[i] = openShard(t, i)
		t.Cleanup(all[i].close)
	}
	return all
}

func openShard(t testing.TB, i int) *shard {
	t.Helper()
	store, err := state.Open(fmt.Sprint("store", i), state.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	return &shard{t: t, number: uint32(i), store: store, machine: op.NewMachine(store)}
}

// close checks a shard and closes it.
func (s *shard) close() {
	s.check()
	if err := s.store.Close(); err != nil {
		s.t.Error(err)
	}
}

func (s *shard) check() {
	s.t.Helper()
	v := s.store.Snapshot()
	defer v.Close()
	if err := v.Check(); err != nil {
		s.t.Fatalf("shard %d: %v", s.number, err)
	}
}

func (s *shard) incarnation() entry.Incarnation { return entry.Incarnation{0xa0 + byte(s.number)} }

// apply applies one entry of an op, through its encoding.
func (s *shard) apply(o op.Op) (any, error) {
	s.t.Helper()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	result := s.entry(o)[0]
	if refused, ok := result.(error); ok {
		return nil, refused
	}
	return result, nil
}

// entry applies ops as one entry and returns their answers, refusals included.
func (s *shard) entry(ops ...op.Op) []any {
	s.t.Helper()
	var b entry.Builder
	for _, o := range ops {
		if err := addTo(&b, o); err != nil {
			s.t.Fatal(err)
		}
	}
	head := s.store.Head()
	e, err := entry.Decode(b.Finish(entry.Header{
		Level: op.FeatureLevel, Incarnation: s.incarnation(), ClockNs: max(epochNs, head.ClockNs) + int64(time.Millisecond), Seed: seedOf(head.Index<<8 | uint64(s.number)),
	}))
	if err != nil {
		s.t.Fatal(err)
	}
	results, err := s.machine.Apply(entry.Applied{
		Group: fmt.Sprintf("ns/%d", s.number), Incarnation: s.incarnation(), Index: head.Index + 1, Term: 1,
	}, e)
	if err != nil {
		s.t.Fatalf("shard %d stopped: %v", s.number, err)
	}
	return results
}

func (s *shard) must(o op.Op) any {
	s.t.Helper()
	result, err := s.apply(o)
	if err != nil {
		s.t.Fatal(err)
	}
	return result
}

// enqueue makes n jobs with a payload of a size.
func (s *shard) enqueue(w *world, queue string, n, size int) (ids []job.ID) {
	s.t.Helper()
	o := w.newJobs(queue, n)
	for i, nj := range o.Jobs {
		nj.Payload.Data = slices.Concat(nj.Payload.Data, make([]byte, size))
		ids = append(ids, job.ID(o.Meta.Ids[i]))
	}
	s.must(o)
	return ids
}

// move moves jobs and returns the refusal of each.
func (s *shard) move(queue string, to uint32, ids ...job.ID) []*op.Refusal {
	s.t.Helper()
	o := &op.MoveJobs{Queue: queue, Shard: to}
	for _, id := range ids {
		o.JobIds = append(o.JobIds, id[:])
	}
	return s.must(o).(*op.MoveJobsResult).Items
}

// deliver delivers the waiting ops to another shard, from a number on.
func (s *shard) deliver(to *shard, from uint64, most int) (last uint64) {
	s.t.Helper()
	rows, err := s.store.Outgoing(to.number, from, most, 1<<30)
	if err != nil {
		s.t.Fatal(err)
	}
	if len(rows) == 0 {
		return 0
	}
	incarnation := s.incarnation()
	o := &op.Deliver{From: s.number, Incarnation: incarnation[:], FirstSeq: rows[0].Seq}
	for _, row := range rows {
		o.Items = append(o.Items, &op.Sent{Number: row.Op.Number, Op: row.Op.Op})
	}
	return to.must(o).(*op.DeliverResult).LastSeq
}

// find follows the forwards from the shard a job was born on, as a reader does;
// moving says that the job is on its way to the shard.
func find(t testing.TB, shards []*shard, born uint32, id job.ID) (at uint32, moving bool) {
	t.Helper()
	move := uint32(0)
	for at = born; ; {
		j, err := shards[at].store.Job(id)
		if err != nil {
			t.Fatal(err)
		}
		if j != nil {
			return at, false
		}
		f, err := shards[at].store.Forwarded(id)
		if err != nil {
			t.Fatal(err)
		}
		if f == nil || f.Move <= move {
			return at, true
		}
		at, move = f.Shard, f.Move
	}
}

// where is a job as it should be found.
type where struct {
	born, at uint32
	queue    string
	moves    uint32
}

// check fails unless a search finds the job on its shard, in its queue and after its moves.
func (is *where) check(t testing.TB, shards []*shard, id job.ID) {
	t.Helper()
	at, moving := find(t, shards, is.born, id)
	if moving || at != is.at {
		t.Fatalf("job %s is found on shard %d (moving %v); it should be %+v", id, at, moving, is)
	}
	j, err := shards[is.at].store.Job(id)
	if err != nil || j.GetQueue() != is.queue || j.GetMoves() != is.moves {
		t.Fatalf("job %s is %v, %v; it should be %+v", id, j, err, is)
	}
}

// Jobs move between queues and shards while deliveries are late, repeated and cut anywhere. Each job is always in
// one place or on its way to one, and a search that starts at the job's first shard finds it.
func TestEachJobIsInOnePlace(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 1))
			shards := newShards(t, 3)
			w := &world{t: t, clockNs: epochNs}
			jobs := map[job.ID]*where{}
			var ids []job.ID
			for i, s := range shards {
				for _, id := range s.enqueue(w, fmt.Sprint("born", i), 6, 0) {
					jobs[id] = &where{born: s.number, at: s.number, queue: fmt.Sprint("born", i)}
					ids = append(ids, id)
				}
			}
			for range 250 {
				if r.IntN(2) == 0 {
					from, to := shards[r.IntN(3)], shards[r.IntN(3)]
					if from == to {
						continue
					}
					// The delivery starts with the first op kept, so some of its ops have usually arrived
					// before.
					last := from.deliver(to, 0, 1+r.IntN(4))
					if last > 0 && r.IntN(2) == 0 {
						from.must(&op.TrimOutbox{Shard: to.number, UpTo: last})
					}
					continue
				}
				id := ids[r.IntN(len(ids))]
				is := jobs[id]
				at, moving := find(t, shards, is.born, id)
				if at != is.at {
					t.Fatalf("job %s is found on shard %d and is on %d", id, at, is.at)
				}
				if moving {
					continue // it cannot be moved before it has arrived
				}
				to, queue := uint32(r.IntN(3)), fmt.Sprint("q", r.IntN(3))
				if refused := shards[at].move(queue, to, id)[0]; refused.Code != "" {
					t.Fatalf("job %s is there and was not moved: %v", id, refused)
				}
				if to != at {
					is.moves++
				}
				is.at, is.queue = to, queue
			}
			for _, from := range shards {
				for _, to := range shards {
					if from != to {
						from.deliver(to, 0, 1000)
					}
				}
			}
			total := 0
			for id, is := range jobs {
				is.check(t, shards, id)
			}
			for _, s := range shards {
				v := s.store.Snapshot()
				for _, err := range v.Jobs() {
					if err != nil {
						t.Fatal(err)
					}
					total++
				}
				v.Close()
			}
			if total != len(jobs) {
				t.Errorf("there are %d jobs, %d were enqueued", total, len(jobs))
			}
		})
	}
}

// A job takes all its records along, to the last byte.
func TestAJobTravelsWhole(t *testing.T) {
	t.Parallel()
	shards := newShards(t, 2)
	w := &world{t: t, clockNs: epochNs}
	o := w.newJobs("q", 1)
	o.Jobs[0].Tags = []*job.Pair{{Name: "a", Value: "b"}}
	o.Jobs[0].Headers = []*job.Pair{{Name: "h", Value: "i"}}
	o.Jobs[0].Payload = &job.Blob{KeyId: "k", Nonce: []byte("n"), Data: []byte("sealed")}
	shards[0].must(o)
	id := job.ID(o.Meta.Ids[0])
	leased := shards[0].must(w.fetch("q", 1)).(*op.FetchResult).Jobs[0]
	shards[0].must(&op.Fail{Items: []*op.FailItem{{
		Proof: &op.LeaseProof{Id: id[:], Token: leased.LeaseToken}, Error: "boom", Backtrace: "line 1", Usage: &job.Usage{InputTokens: 5, Model: "m"},
	}}})
	was := read(t, shards[0], id)
	if refused := shards[0].move("p", 1, id)[0]; refused.Code != "" {
		t.Fatal(refused)
	}
	if gone := read(t, shards[0], id); gone.job != nil || gone.payload != nil || len(gone.errors) > 0 {
		t.Errorf("left behind: %+v", gone)
	}
	shards[0].deliver(shards[1], 0, 10)
	is := read(t, shards[1], id)
	was.job.Queue, was.job.Moves = "p", 1
	before, _, err := was.job.PastEvents()
	if err != nil {
		t.Fatal(err)
	}
	after, _, err := is.job.PastEvents()
	if err != nil || len(after) != len(before)+1 || !slices.Equal(after[:len(before)], before) {
		t.Errorf("it remembers %v, and %v before it left: %v", after, before, err)
	}
	is.job.History, was.job.History = nil, nil
	for part, diff := range map[string]string{
		"job":     cmp.Diff(was.job, is.job, protocmp.Transform()),
		"payload": cmp.Diff(was.payload, is.payload, protocmp.Transform()),
		"errors":  cmp.Diff(was.errors[:1], is.errors, protocmp.Transform()),
	} {
		if diff != "" {
			t.Errorf("its %s (-left +arrived):\n%s", part, diff)
		}
	}
}

type whole struct {
	job     *job.Job
	payload *job.Blob
	errors  []*job.AttemptError
}

func read(t testing.TB, s *shard, id job.ID) (w whole) {
	t.Helper()
	var errs [3]error
	w.job, errs[0] = s.store.Job(id)
	w.payload, errs[1] = s.store.Blob(id, job.Payload)
	w.errors, errs[2] = s.store.Errors(id)
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// A repeated enqueue finds its jobs also when they have gone to another shard.
func TestARepeatedEnqueueFindsJobsThatLeft(t *testing.T) {
	t.Parallel()
	shards := newShards(t, 2)
	w := &world{t: t, clockNs: epochNs}
	o := w.newJobs("q", 1)
	shards[0].must(o)
	shards[0].move("p", 1, job.ID(o.Meta.Ids[0]))
	shards[0].must(o)
	if j, err := shards[0].store.Job(job.ID(o.Meta.Ids[0])); err != nil || j != nil {
		t.Errorf("the job is there again: %v, %v", j, err)
	}
}

// The number of ops that wait for a shard is limited. The op that reaches the limit moves the jobs that fit
// and refuses the others. Later ops are refused until a trim makes room.
func TestOutboxBound(t *testing.T) {
	t.Parallel()
	shards := newShards(t, 2)
	w := &world{t: t, clockNs: epochNs}
	const step = 1000
	var ids []job.ID
	for range state.MaxOutboxOps/step + 1 {
		ids = append(ids, shards[0].enqueue(w, "q", step, 0)...)
	}
	shards[0].move("p", 1, ids[0])
	for i := 1; i+step <= state.MaxOutboxOps; i += step {
		shards[0].move("p", 1, ids[i:i+step]...)
	}
	rest := state.MaxOutboxOps - 1 - (state.MaxOutboxOps-1)/step*step
	items := shards[0].move("p", 1, ids[state.MaxOutboxOps-rest:state.MaxOutboxOps+1]...)
	for i, refused := range items {
		if want := i == len(items)-1; want != (refused.Code == string(api.Overloaded)) {
			t.Fatalf("item %d: %v", i, refused)
		}
	}
	over := &op.MoveJobs{JobIds: [][]byte{ids[state.MaxOutboxOps][:]}, Queue: "p", Shard: 1}
	if _, err := shards[0].apply(over); api.CodeOf(err) != api.Overloaded {
		t.Fatalf("one too many: %v", err)
	}
	if j, err := shards[0].store.Job(ids[state.MaxOutboxOps]); err != nil || j == nil {
		t.Fatalf("the refused job: %v, %v", j, err)
	}
	shards[0].must(&op.TrimOutbox{Shard: 1, UpTo: 1})
	if items := shards[0].must(over).(*op.MoveJobsResult).Items; items[0].GetCode() != "" {
		t.Errorf("with room for one: %v", items[0])
	}
}

// The bytes that wait in an outbox and the bytes of one op are bounded.
func TestMoveBytesBounds(t *testing.T) {
	t.Parallel()
	shards := newShards(t, 2)
	w := &world{t: t, clockNs: epochNs}
	const size = 1 << 20 // of a payload; its op is a little larger
	var ids []job.ID
	for range 80 {
		ids = append(ids, shards[0].enqueue(w, "q", 1, size)...)
	}
	moved := 0
	for i, refused := range shards[0].move("p", 1, ids...) {
		if refused.GetCode() == "" {
			moved++
		} else if refused.Code != string(api.Overloaded) || i < op.MaxMoveBytes/size {
			t.Fatalf("item %d: %v", i, refused)
		}
	}
	if moved != op.MaxMoveBytes/size {
		t.Errorf("%d jobs of a MiB were moved in one op, which takes %d bytes", moved, op.MaxMoveBytes)
	}
	for range 3 {
		shards[0].must(&op.MoveJobs{JobIds: idBytes(ids), Queue: "p", Shard: 1})
	}
	box := shards[0].store.Outboxes()[0]
	if box.Ops() != state.MaxOutboxBytes/size || box.Bytes < state.MaxOutboxBytes {
		t.Errorf("%d ops wait with %d bytes", box.Ops(), box.Bytes)
	}
	if _, err := shards[0].apply(&op.MoveJobs{JobIds: idBytes(ids), Queue: "p", Shard: 1}); api.CodeOf(err) != api.Overloaded {
		t.Errorf("over the bound: %v", err)
	}
}

func idBytes(ids []job.ID) (all [][]byte) {
	for i := range ids {
		all = append(all, ids[i][:])
	}
	return all
}

// The largest job that an op can carry is delivered; one of a byte more stays.
func TestLargestJobThatTravels(t *testing.T) {
	t.Parallel()
	shards := newShards(t, 2)
	w := &world{t: t, clockNs: epochNs}
	// Payload and errors take most of it; the result makes up the size to the byte.
	const guess = 700_000
	trial := shards[0].size(shards[0].largeJob(w, guess))
	fits := shards[0].largeJob(w, guess+op.MaxArriveBytes-trial)
	tooLarge := shards[0].largeJob(w, guess+op.MaxArriveBytes-trial+1)
	if got := shards[0].size(fits); got != op.MaxArriveBytes {
		t.Fatalf("the job takes %d bytes, it should take %d", got, op.MaxArriveBytes)
	}
	items := shards[0].move("p", 1, fits)
	if items[0].GetCode() != "" {
		t.Errorf("the largest: %v", items[0])
	}
	items = shards[0].move("p", 1, tooLarge)
	if items[0].GetCode() != string(api.PayloadTooLarge) {
		t.Errorf("one byte more: %v", items[0])
	}
	if last := shards[0].deliver(shards[1], 0, 1); last != 1 {
		t.Errorf("delivered up to %d", last)
	}
	if j, err := shards[1].store.Job(fits); err != nil || j.GetState() != job.Completed {
		t.Errorf("the largest arrived as %v, %v", j, err)
	}
}

// largeJob returns a completed job of about MaxArriveBytes, with a result of the given size.
func (s *shard) largeJob(w *world, result int) job.ID {
	s.t.Helper()
	o := w.newJobs("large", 1)
	nj, id := o.Jobs[0], o.Meta.Ids[0]
	nj.Payload.Data = make([]byte, job.MaxPayload)
	nj.Checkpoint = &job.Blob{Data: make([]byte, job.MaxCheckpoint)}
	nj.Retry = &job.Retry{MaxAttempts: 100, Backoff: job.BackoffNone}
	s.must(o)
	for attempt := 0; ; attempt++ {
		leased := s.must(w.fetch("large", 1)).(*op.FetchResult).Jobs[0]
		proof := &op.LeaseProof{Id: id, Token: leased.LeaseToken}
		if attempt == 34 {
			s.must(&op.Ack{Items: []*op.AckItem{{Proof: proof, Result: &job.Blob{Data: make([]byte, result)}}}})
			return job.ID(id)
		}
		s.must(&op.Fail{Items: []*op.FailItem{{Proof: proof, Backtrace: string(make([]byte, 63<<10))}}})
	}
}

// size returns the size of a job's Arrive.
func (s *shard) size(id job.ID) int {
	s.t.Helper()
	a := &op.Arrive{}
	var err error
	if a.Job, err = s.store.Job(id); err != nil {
		s.t.Fatal(err)
	}
	for kind := range job.BlobKinds {
		b, err := s.store.Blob(id, kind)
		if err != nil {
			s.t.Fatal(err)
		}
		if b != nil {
			a.Blobs = append(a.Blobs, &op.KindBlob{Kind: uint32(kind), Blob: b})
		}
	}
	if a.Errors, err = s.store.Errors(id); err != nil {
		s.t.Fatal(err)
	}
	return a.SizeVT()
}

// At the limit of queues no job is moved to a new queue, but arriving jobs are accepted.
func TestMovesAtTheBoundOfQueues(t *testing.T) {
	t.Parallel()
	shards := newShards(t, 2)
	w := &world{t: t, clockNs: epochNs}
	for i := 0; i < job.MaxQueues; i += 1000 {
		o := w.newJobs("q", 1000)
		for k, nj := range o.Jobs {
			nj.Queue = fmt.Sprint("q", i+k)
			id := w.newID(nj.Queue)
			o.Meta.Ids[k] = id[:]
		}
		shards[0].must(o)
	}
	own := shards[0].enqueue(w, "q1", 1, 0)[0]
	if _, err := shards[0].apply(&op.MoveJobs{JobIds: [][]byte{own[:]}, Queue: "new"}); api.CodeOf(err) != api.Conflict {
		t.Errorf("into a new queue: %v", err)
	}
	if refused := shards[0].move("q2", 0, own)[0]; refused.GetCode() != "" {
		t.Errorf("into one there is: %v", refused)
	}
	other := shards[1].enqueue(w, "far", 1, 0)[0]
	shards[1].move("new", 0, other)
	shards[1].deliver(shards[0], 0, 1)
	if j, err := shards[0].store.Job(other); err != nil || j.GetQueue() != "new" {
		t.Errorf("arrived as %v, %v", j, err)
	}
	if _, err := shards[0].apply(w.newJobs("newer", 1)); api.CodeOf(err) != api.Conflict {
		t.Errorf("a queue beyond that: %v", err)
	}
}

// A move may give a job all its attempts anew, and the priority of its new queue, on
// whichever shard that is.
func TestMovesRenewJobs(t *testing.T) {
	t.Parallel()
	for _, to := range []uint32{0, 1} {
		shards := newShards(t, 2)
		w := &world{t: t, clockNs: epochNs}
		priority := uint32(job.High)
		shards[to].must(&op.SetQueue{Meta: &op.Meta{}, Queue: "high", Defaults: &state.QueueDefaults{Priority: &priority}})
		for queue, want := range map[string]uint32{"high": job.High, "plain": job.Normal} {
			o := w.newJobs("q", 1)
			o.Jobs[0].Priority, o.Jobs[0].Retry.MaxAttempts = job.Critical, 2
			id := job.ID(o.Meta.Ids[0])
			shards[0].must(o)
			leased := shards[0].must(&op.Fetch{Meta: &op.Meta{LeaseSeed: make([]byte, 16)}, Queues: []string{"q"}, Count: 1, WorkerId: "w", LeaseMs: 60_000}).(*op.FetchResult).Jobs[0]
			shards[0].must(&op.Fail{Items: []*op.FailItem{{Proof: &op.LeaseProof{Id: id[:], Token: leased.LeaseToken}, Error: "boom"}}})
			move := &op.MoveJobs{Meta: &op.Meta{}, JobIds: idBytes([]job.ID{id}), Queue: queue, Shard: to, ResetAttempts: true, DropPriority: true}
			if refused := shards[0].must(move).(*op.MoveJobsResult).Items[0]; refused.GetCode() != "" {
				t.Fatalf("shard %d: %v", to, refused)
			}
			if to != 0 {
				shards[0].deliver(shards[to], 0, 10)
			}
			j, err := shards[to].store.Job(id)
			if err != nil || j == nil {
				t.Fatalf("shard %d has %v, %v", to, j, err)
			}
			if j.Queue != queue || j.Priority != want {
				t.Errorf("shard %d: queue %q, priority %v; want %q, %v", to, j.Queue, j.Priority, queue, want)
			}
			if j.Attempt != 1 || j.AttemptBase != 1 || j.Errors != 1 {
				t.Errorf("shard %d: attempt %d, based on %d, with %d errors", to, j.Attempt, j.AttemptBase, j.Errors)
			}
		}
	}
}
