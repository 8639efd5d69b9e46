package state

import (
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/corvo/corvo/dataplane/job"
)

// damage is one fault of a store and the text with which Check reports it.
type damage struct {
	do   func(s *Store, b *pebble.Batch)
	want string
}

// damages returns the faults that the test makes in a store from soundStore.
func damages() map[string]damage {
	id := idOf(1)
	set := func(key, value []byte) func(*Store, *pebble.Batch) {
		return func(_ *Store, b *pebble.Batch) { _ = b.Set(key, value, nil) }
	}
	remove := func(key []byte) func(*Store, *pebble.Batch) {
		return func(_ *Store, b *pebble.Batch) { _ = b.Delete(key, nil) }
	}
	rewriteJob := func(change func(j *job.Job)) func(*Store, *pebble.Batch) {
		return func(s *Store, b *pebble.Batch) {
			j, _ := s.Job(id)
			change(j)
			_ = put(b, appendJobKey(nil, id), j)
		}
	}
	rewriteHead := func(change func(h *Head)) func(*Store, *pebble.Batch) {
		return func(s *Store, b *pebble.Batch) {
			h := s.Head()
			change(h)
			s.head.Store(h)
		}
	}
	return map[string]damage{
		"nothing":          {func(*Store, *pebble.Batch) {}, ""},
		"lost lane change": {rewriteHead(func(h *Head) { h.LaneChanges++ }), "0 changes of lanes, the head says 1"},
		"stray lane change": {func(_ *Store, b *pebble.Batch) {
			_ = put(b, appendLaneChangesKey(nil, 1), &LaneChanges{Lanes: []*Lane{{Queue: "q", Key: "k", Pending: 1}}})
		}, `lane "k" of queue "q" counts 1 ready`},
		"lost ready key":    {remove(appendReadyKey(nil, "q", job.Normal, 1)), "missing"},
		"stray ready key":   {set(appendReadyKey(nil, "q", job.Normal, 77), id[:]), "2 ready keys, there should be 1"},
		"wrong ready value": {set(appendReadyKey(nil, "q", job.Normal, 1), make([]byte, 16)), "holds 0000"},
		"lost timer":        {remove(appendTimerKey(nil, timer{TimerLease, 1e9}, idOf(2))), "missing"},
		"lost settled key":  {remove(appendSettledKey(nil, "q", job.Completed, 7, idOf(5))), "missing"},
		"stray settled key": {set(appendSettledKey(nil, "q", job.Dead, 7, idOf(5)), nil), "2 settled keys, there should be 1"},
		"stray timer":       {set(appendTimerKey(nil, timer{TimerRetry, 5}, id), nil), "timer keys, there should be 2"},
		"wrong members": {func(_ *Store, b *pebble.Batch) {
			_ = put(b, membersKey(), &Members{Epoch: 1, Generation: 1, Members: []*Member{{Id: "a"}, {Id: "b"}}})
		}, "epoch 1, generation 1 and 2 members"},
		"state":         {rewriteJob(func(j *job.Job) { j.State = job.Held }), `queue "q" counts`},
		"unknown state": {rewriteJob(func(j *job.Job) { j.State = 0 }), "state 0 is none"},
		"queue":         {rewriteJob(func(j *job.Job) { j.Queue = "r" }), `queue "r" has jobs and no record`},
		"id":            {rewriteJob(func(j *job.Job) { j.Id[3] = 9 }), "is stored as"},
		"number":        {rewriteJob(func(j *job.Job) { j.Number = 0 }), "has number 0"},
		"blob mark":     {rewriteJob(func(j *job.Job) { j.Blobs = 0b11 }), "marks blobs 11 and has 1"},
		"error count":   {rewriteJob(func(j *job.Job) { j.Errors = 2 }), "counts 2 errors and has 1"},
		"lost job":      {remove(appendJobKey(nil, id)), "is not there and something of it is"},
		"orphan blob":   {set(appendBlobKey(nil, idOf(99), 0), nil), "is not there and something of it is"},
		"orphan error":  {set(appendErrorKey(nil, idOf(0), 1), nil), "is not there and something of it is"},
		"lost queue":    {remove(queueKey("q")), "has jobs and no record"},
		"stray queue": {func(_ *Store, b *pebble.Batch) {
			_ = put(b, queueKey("z"), &Queue{Name: "z", InState: make([]uint64, job.States)})
		}, "2 queues, the head says 1"},
		"lost key":           {remove(apiKeyKey("k")), "0 API keys, the head says 1"},
		"lost idempotency":   {remove(appendIdempotencyKey(nil, [16]byte{7})), "the head says 1 with 3"},
		"feed gap":           {remove(appendFeedKey(nil, 1)), "where 1 is next"},
		"feed end":           {set(appendFeedKey(nil, 50), nil), "0 events at 50"},
		"head's feed":        {rewriteHead(func(h *Head) { h.FeedNextSeq++ }), "the feed ends before"},
		"head's idempotency": {rewriteHead(func(h *Head) { h.IdempotencyBytes = 1 }), "the head says 1 with 1"},
		"usage gap":          {remove(appendUsageKey(nil, 2)), "usage row 3 where 2 is next"},
		"usage's first":      {remove(appendUsageKey(nil, 1)), "usage row 2 where 1 is next"},
		"usage's last":       {remove(appendUsageKey(nil, 3)), "the usage ends before row 3, the head says 4"},
		"stray usage":        {set(appendUsageKey(nil, 9), nil), "usage row 9 where 4 is next"},
		"head's usage":       {rewriteHead(func(h *Head) { h.UsageFirstSeq++ }), "usage row 1 where 2 is next"},
		"outbox gap":         {remove(appendOutgoingKey(nil, 1, 2)), "op 3 for shard 1 where 2 is next"},
		"outbox's first":     {remove(appendOutgoingKey(nil, 1, 1)), "op 2 for shard 1 where 1 is next"},
		"outbox's last":      {remove(appendOutgoingKey(nil, 1, 3)), "end before 3 at byte 5, their outbox says 4 at 9"},
		"outbox's bytes": {func(_ *Store, b *pebble.Batch) {
			_ = put(b, appendOutgoingKey(nil, 1, 2), &Outgoing{Op: []byte("12345"), EndBytes: 5})
		}, "op 2 for shard 1 ends at byte 5, the ops up to it at 7"},
		"stray outgoing": {set(appendOutgoingKey(nil, 2, 9), nil), "op 9 for shard 2 where 0 is next"},
		"lost outbox":    {remove(appendShardKey(nil, prefixOutbox, 1)), "0 outboxes, the head says 1"},
		"lost inbox":     {remove(appendShardKey(nil, prefixInbox, 2)), "0 inboxes, the head says 1"},
		"own inbox":      {set(appendShardKey(nil, prefixInbox, 0), nil), "inbox from shard 0 has 0 as its last"},
		"lost forward":   {remove(appendForwardKey(nil, idOf(3))), "0 forwards, the head says 1"},
		"forward of a job that is here": {func(_ *Store, b *pebble.Batch) {
			_ = put(b, appendForwardKey(nil, id), &Forward{Shard: 2, Move: 1})
		}, "is here and has gone to shard 2"},
		"forward to itself": {set(appendForwardKey(nil, idOf(3)), nil), "went to shard 0 in its move 0"},
		"unknown kind":      {set([]byte{0x55, 1}, nil), "key 5501 is of no known kind"},
		"below all kinds":   {set([]byte{0x00}, nil), "key 00 is of no known kind"},
		"above all kinds":   {set([]byte{0xff}, nil), "key ff is of no known kind"},
	}
}

// soundStore opens a store with one record of every kind.
func soundStore(t *testing.T) *Store {
	t.Helper()
	s := open(t, vfs.NewMem())
	update(t, s, func(tx *Tx) {
		j := newJob(1, "q")
		must(t, tx.PutBlob(j, job.Payload, &job.Blob{}))
		must(t, tx.CreateJob(j, enqueued))
		must(t, tx.PutError(j, &job.AttemptError{Attempt: 1}))
		must(t, tx.PutJob(j))
		create(t, tx, 2, "q")
		activate(t, tx, idOf(2), 1e9)
		settleAt(t, tx, 5, "q", job.Completed, 7)
		for range 3 {
			must(t, tx.AddUsage(j, &Usage{Report: &job.Usage{InputTokens: 1}}))
		}
		create(t, tx, 3, "q")
		must(t, tx.ForwardJob(read(t, tx, 3), 1, "far"))
		for _, op := range []string{"12", "345", "6789"} {
			must(t, tx.Send(1, 18, []byte(op)))
		}
		must(t, tx.PutInbox(2, testIncarnation, 5))
		must(t, tx.PutKey(&Key{Id: "k"}))
		must(t, tx.PutIdempotency([16]byte{7}, &Idempotency{Result: []byte("abc"), ExpiresNs: 9}))
	})
	update(t, s, func(tx *Tx) { tx.PutQueue(tx.EnsureQueue("q"), EventType_EVENT_QUEUE_CHANGED) })
	check(t, s)
	return s
}

// TestCheckFinds damages a sound store in one way at a time.
func TestCheckFinds(t *testing.T) {
	t.Parallel()
	for name, c := range damages() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := soundStore(t)
			defer s.Close()
			b := s.gen.db.NewBatch()
			c.do(s, b)
			must(t, s.gen.db.Apply(b, pebble.NoSync))
			v := s.Snapshot()
			defer v.Close()
			err := v.Check()
			if c.want == "" {
				must(t, err)
			} else if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("check says %v, want %q", err, c.want)
			}
		})
	}
}

// TestHeadCopyIsWhole fills every field of a head.
func TestHeadCopyIsWhole(t *testing.T) {
	t.Parallel()
	h := &Head{}
	fields := h.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		field, m := fields.Get(i), h.ProtoReflect()
		switch field.Kind() {
		case protoreflect.StringKind:
			m.Set(field, protoreflect.ValueOfString("x"))
		case protoreflect.BytesKind:
			m.Set(field, protoreflect.ValueOfBytes([]byte("x")))
		case protoreflect.BoolKind:
			m.Set(field, protoreflect.ValueOfBool(true))
		case protoreflect.Int64Kind:
			m.Set(field, protoreflect.ValueOfInt64(int64(i+1)))
		case protoreflect.Uint64Kind:
			m.Set(field, protoreflect.ValueOfUint64(uint64(i+1)))
		case protoreflect.Uint32Kind:
			m.Set(field, protoreflect.ValueOfUint32(uint32(i+1)))
		case protoreflect.MessageKind:
			m.Set(field, m.NewField(field))
		default:
			t.Fatalf("field %s is of a kind this test does not fill", field.Name())
		}
	}
	if !proto.Equal(h, h.copy()) {
		t.Errorf("the copy of %v is %v", h, h.copy())
	}
}
