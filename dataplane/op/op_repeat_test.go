package op_test

import (
	"bytes"
	"crypto/sha256"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// prepare has a function for each kind of op that claims to repeat. It makes a world ready for an op of the
// kind and returns the op, which must find something to do.
var prepare = map[string]func(w *world) op.Op{
	"enqueue": func(w *world) op.Op {
		o := w.newJobs("q", 3)
		o.Jobs[1].ScheduledNs = w.clockNs + int64(time.Hour)
		return o
	},
	"fetch": func(w *world) op.Op {
		w.apply(w.newJobs("q", 3))
		return w.fetch("q", 2)
	},
	"ack": func(w *world) op.Op {
		o := ack(w.leased("q", 2)...)
		o.Items[0].Usage = &job.Usage{InputTokens: 5}
		o.Items[0].Result = &job.Blob{Data: []byte("1")}
		return o
	},
	"fail": func(w *world) op.Op {
		o := w.failing(w.leased("q", 4)...)
		o.Items[1].Usage = nil
		o.Items[2].Reason, o.Items[2].Error, o.Items[2].Usage = op.FailReason_FAIL_REASON_UNDELIVERED, "", nil
		return o
	},
	"heartbeat": func(w *world) op.Op {
		o := &op.Heartbeat{Meta: &op.Meta{RequestId: w.newSeed()}}
		for _, l := range w.leased("q", 2) {
			o.Items = append(o.Items, &op.HeartbeatItem{
				Proof: &op.LeaseProof{Id: l.Id, Token: l.LeaseToken}, Usage: &job.Usage{OutputTokens: 3}, Progress: &job.Blob{Data: []byte("1")},
			})
		}
		return o
	},
	"promote": func(w *world) op.Op {
		o := w.newJobs("q", 2)
		o.Jobs[0].ScheduledNs, o.Jobs[1].ScheduledNs = w.clockNs+1, w.clockNs+1
		w.apply(o)
		w.clockNs++
		return &op.Promote{JobIds: o.Meta.Ids}
	},
	"reclaim": func(w *world) op.Op {
		o := &op.Reclaim{}
		for _, l := range w.leased("q", 2) {
			o.JobIds = append(o.JobIds, l.Id)
		}
		w.clockNs += int64(time.Hour)
		return o
	},
	"purge-idempotency": func(w *world) op.Op {
		o := w.newJobs("q", 1)
		o.Meta.Idempotency = idempotent("", "k", "r").Idempotency
		w.apply(o)
		w.clockNs += int64(job.IdempotencyPeriod)
		return &op.PurgeIdempotency{RecordIds: [][]byte{recordOf("k")}}
	},
	"start-term": func(w *world) op.Op { return &op.StartTerm{} },
	"trim-feed": func(w *world) op.Op {
		w.apply(w.newJobs("q", 4))
		return &op.TrimFeed{FirstSeq: 3}
	},
	"create-key": func(w *world) op.Op {
		return &op.CreateKey{First: true, Key: &state.Key{Id: "k", Roles: []string{"admin"}, Hash: make([]byte, 32), Enabled: true}}
	},
	"trim-usage": func(w *world) op.Op {
		w.apply(w.failing(w.leased("q", 3)...))
		return &op.TrimUsage{FirstSeq: 3}
	},
	"raise-level": func(w *world) op.Op {
		w.machine.MaxLevel = 2
		return &op.RaiseLevel{Level: 2}
	},
	"arrive": func(w *world) op.Op { return w.arriving("q") },
	"deliver": func(w *world) op.Op {
		o := &op.Deliver{From: 3, Incarnation: bytes.Repeat([]byte{3}, 16), FirstSeq: 1}
		for range 3 {
			o.Items = append(o.Items, sent(w.t, w.arriving("q")))
		}
		return o
	},
	"trim-outbox": func(w *world) op.Op {
		o := w.newJobs("q", 3)
		w.apply(o)
		w.apply(&op.MoveJobs{JobIds: o.Meta.Ids, Queue: "far", Shard: 2})
		return &op.TrimOutbox{Shard: 2, UpTo: 2}
	},
}

// sent returns an op in the form of an outbox.
func sent(t testing.TB, o op.Op) *op.Sent {
	return &op.Sent{Number: uint32(op.KindFor(o).Number), Op: encoded(t, o)}
}

// arriving returns the arrival of a job from another shard.
func (w *world) arriving(queue string) *op.Arrive {
	id := w.newID(queue)
	return &op.Arrive{Job: &job.Job{
		Id: id[:], Queue: queue, State: job.Pending, Priority: job.Normal, Retry: job.NewRetry(), CreatedNs: w.clockNs, Moves: 1,
	}, Blobs: []*op.KindBlob{{Kind: uint32(job.Payload), Blob: &job.Blob{Data: []byte("{}")}}}}
}

// recordOf returns the record id of an idempotency key without a principal.
func recordOf(key string) []byte {
	sum := sha256.Sum256([]byte("\x00" + key))
	return sum[:16]
}

// leased returns n jobs that a worker has just fetched.
func (w *world) leased(queue string, n uint32) []*op.Leased {
	w.apply(w.newJobs(queue, int(n)))
	return one[*op.FetchResult](w, w.fetch(queue, n)).Jobs
}

// failing returns a failure of each of the jobs, with usage.
func (w *world) failing(leased ...*op.Leased) *op.Fail {
	o := &op.Fail{Meta: &op.Meta{RequestId: w.newSeed()}}
	for _, l := range leased {
		o.Items = append(o.Items, &op.FailItem{
			Proof: &op.LeaseProof{Id: l.Id, Token: l.LeaseToken}, Error: "broken", Usage: &job.Usage{InputTokens: 1},
		})
	}
	return o
}

// busy applies unrelated work: it touches neither the queue nor the jobs of an op that prepare made.
func (w *world) busy() {
	leased := w.leased("other", 3)
	w.apply(ack(leased[0]), w.failing(leased[1]), w.newJobs("other", 2))
}

// manners are the ways in which an op comes a second time. Each applies it once,
// or twice, and answers its last result.
var manners = map[string]func(w *world, o op.Op, times int) any{
	"in one entry": func(w *world, o op.Op, times int) any {
		results := w.apply([]op.Op{o, o}[:times]...)
		return results[times-1]
	},
	"in the next entry": func(w *world, o op.Op, times int) (last any) {
		for range times {
			last = w.apply(o)[0]
		}
		return last
	},
	"after a restart": func(w *world, o op.Op, times int) (last any) {
		for range times {
			last = w.apply(o)[0]
			w.restart()
		}
		return last
	},
	"after work of others": func(w *world, o op.Op, times int) any {
		last := w.apply(o)[0]
		w.busy()
		if times > 1 {
			last = w.apply(o)[0]
		}
		w.busy()
		return last
	},
}

// Every op that claims to repeat changes the state once, however often and
// whenever it comes, and answers the same where it claims that too.
func TestRepeats(t *testing.T) {
	t.Parallel()
	for _, k := range op.Kinds() {
		if k.Repeats == op.RepeatNever {
			continue
		}
		make := prepare[k.Name]
		if make == nil {
			t.Errorf("%s claims to repeat and nobody looks", k.Name)
			continue
		}
		for name, apply := range manners {
			t.Run(k.Name+" "+name, func(t *testing.T) {
				t.Parallel()
				once, twice := newWorld(t), newWorld(t)
				before := settled(t, once)
				first := apply(once, make(once), 1)
				o := make(twice)
				if !op.NewCodec().Repeats(op.Proposal(o)) {
					t.Error("the codec says that it does not repeat")
				}
				second := apply(twice, o, 2)
				if err, refused := first.(error); refused {
					t.Fatalf("refused: %v", err)
				}
				if k.Repeats == op.RepeatAnswers && !proto.Equal(first.(proto.Message), second.(proto.Message)) {
					t.Errorf("answered %v first and %v then", first, second)
				}
				if err, refused := second.(error); refused {
					t.Errorf("the repeat was refused: %v", err)
				}
				if a, b := settled(t, once), settled(t, twice); !bytes.Equal(a, b) {
					t.Errorf("the repeat changed the state")
				} else if bytes.Equal(a, before) {
					t.Error("nothing was done in the first place")
				}
				twice.check()
				if name == "after a restart" {
					twice.checkReplica()
				}
			})
		}
	}
}

// The first bytes of the keys of the head, of the terms and of the feed.
const (
	headPrefix  = 0x01
	termsPrefix = 0x03
	feedPrefix  = 0x50
)

// The jobs of an Enqueue may have gone to another shard: a repeat does not make
// them a second time.
func TestEnqueueRepeatsAfterMove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.newJobs("q", 2)
	o.Jobs[1].ScheduledNs = w.clockNs + int64(time.Second)
	first := one[*op.EnqueueResult](w, o)
	w.apply(&op.MoveJobs{JobIds: o.Meta.Ids, Queue: "far", Shard: 1})
	w.clockNs += int64(time.Minute)
	if second := one[*op.EnqueueResult](w, o); !proto.Equal(first, second) {
		t.Errorf("answered %v first and %v then", first, second)
	}
	for _, id := range o.Meta.Ids {
		if j, err := w.store.Job(job.ID(id)); j != nil || err != nil {
			t.Errorf("job %s is here again: %v", job.ID(id), err)
		}
	}
	w.check()
	w.checkReplica()
}

// settled returns a store's content without the records that every entry changes: the log's position, the entries
// that began terms, and the feed.
func settled(t testing.TB, w *world) []byte {
	t.Helper()
	var all []byte
	for _, kv := range content(t, w.store) {
		if kv.Key[0] == headPrefix || kv.Key[0] == termsPrefix || kv.Key[0] == feedPrefix {
			continue
		}
		all = append(append(append(all, kv.Key...), 0), kv.Value...)
	}
	head := w.store.Head()
	head.Index, head.FeedNextSeq, head.FeedBytes = 0, 0, 0 // a repeat may add its event again
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(head)
	if err != nil {
		t.Fatal(err)
	}
	return append(all, data...)
}

// ordered is an op that waits for its admission, as a stream's op does.
type ordered struct{ op.Op }

func (ordered) AdmitInOrder(admit func() error) error { return admit() }

// Some ops of a kind that repeats cannot tell whether they are a repeat. A wrapper around the op changes nothing.
func TestRepeatsIsExact(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.leased("q", 1)[0]
	proven := &op.LeaseProof{Id: l.Id, Token: l.LeaseToken}
	bare := &op.LeaseProof{Id: l.Id, WorkerId: "w"}
	id := &op.Meta{RequestId: w.newSeed()}
	usage := &job.Usage{InputTokens: 1}
	for name, c := range map[string]struct {
		o    op.Op
		want bool
	}{
		"a fail with token and request":   {&op.Fail{Meta: id, Items: []*op.FailItem{{Proof: proven}}}, true},
		"a fail without a request":        {&op.Fail{Items: []*op.FailItem{{Proof: proven}}}, false},
		"a fail with an item of no token": {&op.Fail{Meta: id, Items: []*op.FailItem{{Proof: proven}, {Proof: bare}}}, false},
		"that with an idempotency key":    {&op.Fail{Meta: idempotent("", "k", ""), Items: []*op.FailItem{{Proof: bare}}}, true},
		"a heartbeat without usage":       {&op.Heartbeat{Items: []*op.HeartbeatItem{{Proof: bare}}}, true},
		"a heartbeat with usage":          {&op.Heartbeat{Items: []*op.HeartbeatItem{{Proof: bare}, {Proof: proven, Usage: usage}}}, false},
		"that with a request":             {&op.Heartbeat{Meta: id, Items: []*op.HeartbeatItem{{Proof: proven, Usage: usage}}}, true},
		"an ack that ends the job":        {&op.Ack{Items: []*op.AckItem{{Proof: bare, AgentStatus: job.Done}}}, true},
		"an ack with a token":             {&op.Ack{Items: []*op.AckItem{{Proof: proven, AgentStatus: job.Continue}}}, true},
		"that with an item of no token":   {&op.Ack{Items: []*op.AckItem{{Proof: proven}, {Proof: bare, AgentStatus: job.Suspend}}}, false},
		"the first key":                   {&op.CreateKey{First: true}, true},
		"another key":                     {&op.CreateKey{}, false},
		"a setting":                       {&op.SetQueue{Queue: "q"}, false},
		"a change of an alert":            {&op.SetAlerts{}, false},
		"a setting with a key":            {&op.SetQueue{Meta: idempotent("", "k", ""), Queue: "q"}, true},
		"an enqueue":                      {&op.Enqueue{Jobs: []*op.NewJob{{}}}, true},
		"an enqueue with a debounce key":  {&op.Enqueue{Jobs: []*op.NewJob{{Options: &job.Options{DebounceKey: "k"}}}}, false},
	} {
		for _, o := range []op.Op{c.o, ordered{c.o}} {
			if got := op.NewCodec().Repeats(op.Proposal(o)); got != c.want {
				t.Errorf("%s repeats as a %T: %v", name, o, got)
			}
		}
	}
}
