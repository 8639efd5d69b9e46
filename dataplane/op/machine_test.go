package op_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// raw is encoded bytes under an op's number. It is a proposal of its own.
type raw struct {
	*op.StartTerm
	number entry.Number
	data   []byte
}

func (r raw) Number() entry.Number  { return r.number }
func (r raw) Class() pipeline.Class { return pipeline.ClassSettle }
func (r raw) SizeVT() int           { return len(r.data) }
func (r raw) MarshalToSizedBufferVT(to []byte) (int, error) {
	return copy(to, r.data), nil
}

// Entries of newer binaries stop the machine before it applies any part of them.
func TestMachineStops(t *testing.T) {
	t.Parallel()
	unknownField := protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1)
	for _, c := range []struct {
		name  string
		level uint32
		op    op.Op
		want  string
	}{
		{"higher level", op.FeatureLevel + 1, &op.StartTerm{}, fmt.Sprintf("entry 2 was written at feature level %d, this binary knows %d", op.FeatureLevel+1, op.FeatureLevel)},
		{"unknown number", op.FeatureLevel, raw{number: 99}, "entry 2, op 2 of 2: op number 99 is not known"},
		{"unknown field", op.FeatureLevel, raw{number: 1, data: unknownField}, "entry 2, op 2 of 2: decode enqueue: corvo.op.v1.Enqueue has a field 99"},
		{"garbage", op.FeatureLevel, raw{number: 2, data: []byte{0xff}}, "entry 2, op 2 of 2: decode fetch"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.apply(w.newJobs("q", 1))
			before := content(t, w.store)
			_, err := w.try(w.encode(c.level, w.newJobs("other", 1), c.op))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("applied with %v, want %q", err, c.want)
			}
			if got := w.machine.Applied(); got.Index != 1 {
				t.Errorf("applied is %d", got.Index)
			}
			if !slices.EqualFunc(before, content(t, w.store), func(a, b state.KV) bool {
				return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value)
			}) {
				t.Error("the store has changed")
			}
		})
	}
}

// An op that breaks a promise of Validate can no longer be refused, so it stops the machine.
func TestImpossibleOpsStop(t *testing.T) {
	t.Parallel()
	for _, o := range []op.Op{
		&op.Enqueue{Meta: &op.Meta{Ids: [][]byte{{1}}}, Jobs: []*op.NewJob{{Queue: "q"}}},
		&op.Ack{Items: []*op.AckItem{{}}},
		&op.Fail{Items: []*op.FailItem{{}}},
		&op.Heartbeat{Items: []*op.HeartbeatItem{{}}},
		&op.Promote{JobIds: [][]byte{{1}}},
		&op.Reclaim{JobIds: [][]byte{{1}}},
		&op.PurgeIdempotency{RecordIds: [][]byte{{1}}},
	} {
		name := op.KindFor(o).Name
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			_, err := w.try(w.encode(op.FeatureLevel, o))
			if err == nil || !strings.Contains(err.Error(), "entry 1, op 1 of 1 ("+name+")") {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestUnknownFailReasonStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	enqueue := w.newJobs("q", 1)
	w.apply(enqueue)
	_, err := w.try(w.encode(op.FeatureLevel, &op.Fail{Items: []*op.FailItem{{
		Proof:  &op.LeaseProof{Id: enqueue.Meta.Ids[0]},
		Reason: 7,
	}}}))
	if err == nil || !strings.Contains(err.Error(), "failed for reason 7") {
		t.Errorf("%v", err)
	}
}

// Results stand where their ops stood, refusals too, though settle ops apply
// first.
func TestResultsByPosition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	enqueue := w.newJobs("q", 1)
	results := w.apply(
		&op.RevokeKey{Id: "none"},
		w.fetch("q", 1),
		enqueue,
		&op.StartTerm{},
		w.fetch("q", 1),
		ack(&op.Leased{Id: enqueue.Meta.Ids[0]}),
	)
	var got []string
	for _, r := range results {
		if err, ok := r.(*api.Error); ok {
			got = append(got, string(err.Code))
			continue
		}
		got = append(got, reflect.TypeOf(r).Elem().Name())
	}
	want := "NOT_FOUND FetchResult EnqueueResult StartTermResult FetchResult AckResult"
	if strings.Join(got, " ") != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if n := len(results[1].(*op.FetchResult).Jobs); n != 0 {
		t.Errorf("a fetch before its enqueue got %d jobs", n)
	}
	if n := len(results[4].(*op.FetchResult).Jobs); n != 1 {
		t.Errorf("a fetch after its enqueue got %d jobs", n)
	}
	if code := results[5].(*op.AckResult).Items[0].Code; code != string(api.NotFound) {
		t.Errorf("an ack, which applies first, of a job of the same entry: %q", code)
	}
}

// An ack frees a job's place for the fetches of the same entry, at any concurrency: these fetches together get
// exactly the free number.
func TestConcurrencyIsExact(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	most := uint32(7)
	w.apply(&op.SetQueue{Queue: "q", MaxConcurrency: &most}, w.newJobs("q", 100))
	var held []*op.Leased
	for round := range 10 {
		settled := min(round, len(held))
		ops := []op.Op{w.fetch("q", 3), w.fetch("q", 3)}
		for _, l := range held[:settled] {
			ops = append(ops, ack(l))
		}
		held = held[settled:]
		ops = append(ops, w.fetch("q", 3), w.fetch("q", 3))
		for _, r := range w.apply(ops...) {
			if f, ok := r.(*op.FetchResult); ok {
				held = append(held, f.Jobs...)
			}
		}
		if len(held) != int(most) {
			t.Fatalf("round %d: %d jobs are active, %d may be", round, len(held), most)
		}
		w.check()
	}
}

func TestLeaseTokens(t *testing.T) {
	t.Parallel()
	fetchWith := func(seed []byte) []*op.Leased {
		w := newWorld(t)
		w.apply(w.newJobs("q", 2))
		f := w.fetch("q", 2)
		f.Meta.LeaseSeed = seed
		return one[*op.FetchResult](w, f).Jobs
	}
	seed := bytes.Repeat([]byte{7}, 16)
	a, b, c := fetchWith(seed), fetchWith(seed), fetchWith(bytes.Repeat([]byte{8}, 16))
	for i := range a {
		if len(a[i].LeaseToken) != job.TokenSize || !bytes.Equal(a[i].LeaseToken, b[i].LeaseToken) {
			t.Errorf("token %d is %x and %x from the same seed", i, a[i].LeaseToken, b[i].LeaseToken)
		}
		if bytes.Equal(a[i].LeaseToken, c[i].LeaseToken) {
			t.Errorf("token %d is the same from another seed", i)
		}
	}
	if bytes.Equal(a[0].LeaseToken, a[1].LeaseToken) {
		t.Error("two tokens of a fetch are the same")
	}
	// The derivation is permanent: replicas of different versions must agree.
	if got := fmt.Sprintf("%x %x", a[0].LeaseToken, a[1].LeaseToken); got != "3cee514aff0504100794ab1dce8bcb64 03f9b03b9cf82645132f0b385e65dda2" {
		t.Errorf("tokens of a fixed seed are %s", got)
	}
}

func TestQueueBound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	enqueue := func(from, n int) *op.Enqueue {
		o := &op.Enqueue{Meta: &op.Meta{}}
		for i := range n {
			one := w.newJobs(fmt.Sprintf("q%d", from+i), 1)
			o.Meta.Ids = append(o.Meta.Ids, one.Meta.Ids...)
			o.Jobs = append(o.Jobs, one.Jobs...)
		}
		return o
	}
	for from := 0; from < job.MaxQueues-job.MaxEnqueueJobs; from += job.MaxEnqueueJobs {
		w.apply(enqueue(from, job.MaxEnqueueJobs))
	}
	// One too many: none of its jobs and queues is made.
	last := job.MaxQueues - job.MaxEnqueueJobs
	w.apply(enqueue(last, job.MaxEnqueueJobs-1))
	refused, ok := w.apply(enqueue(job.MaxQueues-1, 2))[0].(*api.Error)
	if !ok || refused.Code != api.Conflict {
		t.Fatalf("two queues where one fits: %v", refused)
	}
	// The same new queue twice is one.
	twice := enqueue(job.MaxQueues-1, 1)
	again := enqueue(job.MaxQueues-1, 1)
	twice.Meta.Ids, twice.Jobs = append(twice.Meta.Ids, again.Meta.Ids...), append(twice.Jobs, again.Jobs...)
	one[*op.EnqueueResult](w, twice)
	if n := w.store.Head().QueueRecords; n != job.MaxQueues {
		t.Errorf("there are %d queues", n)
	}
	// Full: new ones are refused, old ones work.
	for _, o := range []op.Op{enqueue(job.MaxQueues, 1), &op.SetQueue{Queue: "new"}} {
		if refused, ok := w.apply(o)[0].(*api.Error); !ok || refused.Code != api.Conflict {
			t.Errorf("%T of a queue too many: %v", o, refused)
		}
	}
	one[*op.EnqueueResult](w, enqueue(0, 1))
	one[*op.SetQueueResult](w, &op.SetQueue{Queue: "q1"})
	w.check()
}

func TestKeyBound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := func(i int) *op.CreateKey {
		return &op.CreateKey{Key: &state.Key{Id: fmt.Sprintf("k%d", i), Roles: []string{"admin"}, Hash: bytes.Repeat([]byte{byte(i)}, 32)}}
	}
	var ops []op.Op
	for i := range job.MaxKeys {
		ops = append(ops, key(i))
	}
	for i, r := range w.apply(ops...) {
		if _, ok := r.(*op.CreateKeyResult); !ok {
			t.Fatalf("key %d: %v", i, r)
		}
	}
	if refused, ok := w.apply(key(job.MaxKeys))[0].(*api.Error); !ok || refused.Code != api.Conflict {
		t.Errorf("a key too many: %v", refused)
	}
	one[*op.CreateKeyResult](w, key(0)) // its own earlier effect
	one[*op.RevokeKeyResult](w, &op.RevokeKey{Id: "k0"})
	one[*op.CreateKeyResult](w, key(job.MaxKeys))
	w.check()
}

// A fetch leases as many jobs as it asks for, up to job.MaxFetchJobs.
func TestFetchBound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(w.newJobs("q", job.MaxFetchJobs+1))
	if n := len(one[*op.FetchResult](w, w.fetch("q", job.MaxFetchJobs)).Jobs); n != job.MaxFetchJobs {
		t.Errorf("fetched %d", n)
	}
	if n := len(one[*op.FetchResult](w, w.fetch("q", job.MaxFetchJobs)).Jobs); n != 1 {
		t.Errorf("fetched %d of the one left", n)
	}
}

func TestDefaultMemory(t *testing.T) {
	t.Parallel()
	if got := newWorld(t).machine.Memory; got != (op.Memory{Records: job.MaxIdempotencyRecords, Bytes: job.MaxIdempotencyBytes}) {
		t.Errorf("%+v", got)
	}
}

// The machine forwards the engine's requests to the store.
func TestMachineIsTheStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(w.newJobs("q", 3))
	if err := w.machine.Configure(at(2), []byte("members")); err != nil {
		t.Fatal(err)
	}
	if got, index := w.machine.Configuration(); string(got) != "members" || index != 2 {
		t.Errorf("configuration %q of %d", got, index)
	}
	if got := w.machine.Applied(); got != at(2) {
		t.Errorf("applied %v", got)
	}
	if got := w.machine.LastClock(); got != epochNs {
		t.Errorf("clock %d", got)
	}
	if err := w.machine.Flush(); err != nil {
		t.Fatal(err)
	}
	image, err := w.machine.Image()
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()
	other := newWorld(t)
	if err := other.machine.Restore(image); err != nil {
		t.Fatal(err)
	}
	if got := other.machine.Applied(); got != at(2) {
		t.Errorf("restored to %v", got)
	}
	if a, b := len(content(t, w.store)), len(content(t, other.store)); a != b {
		t.Errorf("restored %d pairs of %d", b, a)
	}
}
