package op_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fault"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// valid returns an op of each kind that passes Validate.
func valid(t testing.TB) map[string]op.Op {
	w := &world{t: t, clockNs: epochNs}
	id := w.newID("q")
	proof := func() *op.LeaseProof { return &op.LeaseProof{Id: id[:]} }
	ops := map[string]op.Op{}
	for _, o := range []op.Op{
		w.newJobs("q", 1),
		w.fetch("q", 1),
		&op.Ack{Items: []*op.AckItem{{Proof: proof()}}},
		&op.Fail{Items: []*op.FailItem{{Proof: proof()}}},
		&op.Heartbeat{Items: []*op.HeartbeatItem{{Proof: proof()}}},
		&op.SetQueue{Queue: "q"},
		&op.Promote{JobIds: [][]byte{id[:]}},
		&op.Reclaim{JobIds: [][]byte{id[:]}},
		&op.PurgeIdempotency{RecordIds: [][]byte{id[:]}},
		&op.StartTerm{},
		&op.TrimFeed{FirstSeq: 1},
		&op.CreateKey{Key: &state.Key{Id: "k", Roles: []string{"admin"}, Hash: make([]byte, 32)}},
		&op.RevokeKey{Id: "k"},
		&op.TrimUsage{FirstSeq: 1},
		&op.DeleteQueue{Queue: "q"},
		&op.RaiseLevel{Level: 1},
		&op.MoveJobs{JobIds: [][]byte{id[:]}, Queue: "q"},
		w.arriving("q"),
		&op.Deliver{From: 1, Incarnation: make([]byte, 16), FirstSeq: 1, Items: []*op.Sent{sent(t, w.arriving("q"))}},
		&op.TrimOutbox{Shard: 1, UpTo: 1},
	} {
		ops[op.KindFor(o).Name] = o
	}
	for _, more := range moreValid {
		o := more(w)
		ops[op.KindFor(o).Name] = o
	}
	return ops
}

// moreValid are valid ops whose tests are in files of their own.
var moreValid []func(w *world) op.Op

func TestValidOps(t *testing.T) {
	t.Parallel()
	ops := valid(t)
	if len(ops) != len(op.Kinds()) {
		t.Errorf("%d ops of %d kinds", len(ops), len(op.Kinds()))
	}
	for name, o := range ops {
		if err := o.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Nothing set at all is refused, except where there is nothing to set.
func TestEmptyOps(t *testing.T) {
	t.Parallel()
	for _, k := range op.Kinds() {
		err := k.New().Validate()
		if k.Name == "start-term" || k.Name == "record-usage" {
			if err != nil {
				t.Errorf("%s: %v", k.Name, err)
			}
		} else if api.CodeOf(err) != api.ValidationError {
			t.Errorf("an empty %s: %v", k.Name, err)
		}
	}
}

// bounds are the bounds Validate keeps: set makes a field of a valid op as
// large as n, at is the most that passes.
var bounds = []struct {
	op, field string
	at        int
	beyond    api.Code
	set       func(o op.Op, n int)
}{
	{"start-term", "meta.principal", job.MaxPrincipal, api.ValidationError, func(o op.Op, n int) {
		o.(*op.StartTerm).Meta = &op.Meta{Principal: long(n)}
	}},
	{"start-term", "Idempotency-Key", job.MaxIdempotencyKey, api.ValidationError, func(o op.Op, n int) {
		o.(*op.StartTerm).Meta = idempotent("", long(n), "")
	}},
	{"start-term", "meta.idempotency.request_hash", 32, api.ValidationError, func(o op.Op, n int) {
		o.(*op.StartTerm).Meta = idempotent("", "k", "")
		o.(*op.StartTerm).Meta.Idempotency.RequestHash = make([]byte, n)
	}},
	{"start-term", "meta.request_id", 16, api.ValidationError, func(o op.Op, n int) {
		o.(*op.StartTerm).Meta = &op.Meta{RequestId: make([]byte, n)}
	}},
	{"enqueue", "jobs", job.MaxEnqueueJobs, api.ValidationError, func(o op.Op, n int) {
		w := &world{clockNs: epochNs}
		fresh := w.newJobs("q", n)
		e := o.(*op.Enqueue)
		e.Meta, e.Jobs = fresh.Meta, fresh.Jobs
	}},
	{"enqueue", "jobs[0].payload", job.MaxPayload, api.PayloadTooLarge, func(o op.Op, n int) {
		o.(*op.Enqueue).Jobs[0].Payload.Data = make([]byte, n)
	}},
	{"enqueue", "jobs[0].checkpoint", job.MaxCheckpoint, api.PayloadTooLarge, func(o op.Op, n int) {
		o.(*op.Enqueue).Jobs[0].Checkpoint = &job.Blob{Data: make([]byte, n)}
	}},
	{"enqueue", "jobs[0].payload", job.MaxSealKeyID, api.ValidationError, func(o op.Op, n int) {
		o.(*op.Enqueue).Jobs[0].Payload.KeyId = long(n)
	}},
	{"enqueue", "jobs[0].payload", job.MaxSealNonce, api.ValidationError, func(o op.Op, n int) {
		o.(*op.Enqueue).Jobs[0].Payload.Nonce = make([]byte, n)
	}},
	{"enqueue", "jobs[0].priority", job.Priorities - 1, api.ValidationError, func(o op.Op, n int) {
		o.(*op.Enqueue).Jobs[0].Priority = uint32(n)
	}},
	{"enqueue", "jobs[0].retry", job.MaxAttempts, api.ValidationError, func(o op.Op, n int) {
		o.(*op.Enqueue).Jobs[0].Retry.MaxAttempts = uint32(n)
	}},
	{"enqueue", "jobs[0].tags", job.MaxTags, api.ValidationError, func(o op.Op, n int) {
		o.(*op.Enqueue).Jobs[0].Tags = numbered(n)
	}},
	{"enqueue", "jobs[0].headers", job.MaxHeaders, api.ValidationError, func(o op.Op, n int) {
		o.(*op.Enqueue).Jobs[0].Headers = numbered(n)
	}},
	{"fetch", "meta.lease_seed", 16, api.ValidationError, func(o op.Op, n int) {
		o.(*op.Fetch).Meta.LeaseSeed = make([]byte, n)
	}},
	{"fetch", "queues", job.MaxFetchQueues, api.ValidationError, func(o op.Op, n int) {
		o.(*op.Fetch).Queues = strings.Split(strings.Repeat("q,", n-1)+"q", ",")
	}},
	{"fetch", "queues[0]", job.MaxQueueName, api.ValidationError, func(o op.Op, n int) {
		o.(*op.Fetch).Queues[0] = long(n)
	}},
	{"fetch", "count", job.MaxFetchJobs, api.ValidationError, func(o op.Op, n int) {
		o.(*op.Fetch).Count = uint32(n)
	}},
	{"fetch", "worker_id", job.MaxWorkerID, api.ValidationError, func(o op.Op, n int) {
		o.(*op.Fetch).WorkerId = long(n)
	}},
	{"fetch", "hostname", job.MaxWorkerID, api.ValidationError, func(o op.Op, n int) {
		o.(*op.Fetch).Hostname = long(n)
	}},
	{"fetch", "lease_duration", int(job.MaxLease.Milliseconds()), api.ValidationError, func(o op.Op, n int) {
		o.(*op.Fetch).LeaseMs = int64(n)
	}},
	{"ack", "items", job.MaxAckItems, api.ValidationError, func(o op.Op, n int) {
		a := o.(*op.Ack)
		for len(a.Items) < n {
			a.Items = append(a.Items, a.Items[0])
		}
	}},
	{"ack", "items[0].job_id", 16, api.ValidationError, func(o op.Op, n int) {
		o.(*op.Ack).Items[0].Proof.Id = make([]byte, n)
	}},
	{"ack", "items[0].lease_token", job.TokenSize, api.ValidationError, func(o op.Op, n int) {
		o.(*op.Ack).Items[0].Proof.Token = make([]byte, n)
	}},
	{"ack", "items[0].worker_id", job.MaxWorkerID, api.ValidationError, func(o op.Op, n int) {
		o.(*op.Ack).Items[0].Proof.WorkerId = long(n)
	}},
	{"ack", "items[0].result", job.MaxResult, api.PayloadTooLarge, func(o op.Op, n int) {
		o.(*op.Ack).Items[0].Result = &job.Blob{Data: make([]byte, n)}
	}},
	{"ack", "items[0].checkpoint", job.MaxCheckpoint, api.PayloadTooLarge, func(o op.Op, n int) {
		o.(*op.Ack).Items[0].Checkpoint = &job.Blob{Data: make([]byte, n)}
	}},
	{"ack", "items[0].usage", job.MaxUsageWord, api.ValidationError, func(o op.Op, n int) {
		o.(*op.Ack).Items[0].Usage = &job.Usage{Model: long(n)}
	}},
	{"ack", "items[0].trace", job.MaxTrace, api.PayloadTooLarge, func(o op.Op, n int) {
		o.(*op.Ack).Items[0].Trace = &job.Blob{Data: make([]byte, n)}
	}},
	{"ack", "items[0].hold_reason", job.MaxHoldReason, api.ValidationError, func(o op.Op, n int) {
		o.(*op.Ack).Items[0].AgentStatus, o.(*op.Ack).Items[0].HoldReason = job.Suspend, long(n)
	}},
	{"ack", "items[0].agent_status", int(job.Suspend), api.ValidationError, func(o op.Op, n int) {
		o.(*op.Ack).Items[0].AgentStatus = job.IterationStatus(n)
	}},
	{"enqueue", "jobs[0].agent", job.MaxIterations, api.ValidationError, func(o op.Op, n int) {
		o.(*op.Enqueue).Jobs[0].Opt().Agent = &job.AgentConfig{MaxIterations: uint32(n)}
	}},
	{"enqueue", "jobs[0].agent", job.MaxMoney, api.ValidationError, func(o op.Op, n int) {
		o.(*op.Enqueue).Jobs[0].Opt().Agent = &job.AgentConfig{MaxCostNanoUsd: int64(n)}
	}},
	{"enqueue", "jobs[0].agent", int(job.MaxIterationTime.Milliseconds()), api.ValidationError, func(o op.Op, n int) {
		o.(*op.Enqueue).Jobs[0].Opt().Agent = &job.AgentConfig{IterationTimeoutMs: int64(n)}
	}},
	{"score-job", "dimension", job.MaxScoreWord, api.ValidationError, func(o op.Op, n int) { o.(*op.ScoreJob).Score.Dimension = long(n) }},
	{"score-job", "scorer", job.MaxScoreWord, api.ValidationError, func(o op.Op, n int) { o.(*op.ScoreJob).Score.Scorer = long(n) }},
	{"fail", "items", job.MaxAckItems, api.ValidationError, func(o op.Op, n int) {
		a := o.(*op.Fail)
		for len(a.Items) < n {
			a.Items = append(a.Items, a.Items[0])
		}
	}},
	{"fail", "items[0].error", job.MaxErrorText, api.PayloadTooLarge, func(o op.Op, n int) {
		o.(*op.Fail).Items[0].Error = long(n)
	}},
	{"fail", "items[0].backtrace", job.MaxBacktrace, api.PayloadTooLarge, func(o op.Op, n int) {
		o.(*op.Fail).Items[0].Backtrace = long(n)
	}},
	{"fail", "items[0].reason", int(op.FailReason_FAIL_REASON_SHUTDOWN), api.ValidationError, func(o op.Op, n int) {
		o.(*op.Fail).Items[0].Reason = op.FailReason(n)
	}},
	{"heartbeat", "items", job.MaxHeartbeatJobs, api.ValidationError, func(o op.Op, n int) {
		a := o.(*op.Heartbeat)
		for len(a.Items) < n {
			a.Items = append(a.Items, a.Items[0])
		}
	}},
	{"heartbeat", "items[0].progress", job.MaxProgress, api.PayloadTooLarge, func(o op.Op, n int) {
		o.(*op.Heartbeat).Items[0].Progress = &job.Blob{Data: make([]byte, n)}
	}},
	{"heartbeat", "items[0].checkpoint", job.MaxCheckpoint, api.PayloadTooLarge, func(o op.Op, n int) {
		o.(*op.Heartbeat).Items[0].Checkpoint = &job.Blob{Data: make([]byte, n)}
	}},
	{"heartbeat", "items[0].lease_duration", int(job.MaxLease.Milliseconds()), api.ValidationError, func(o op.Op, n int) {
		o.(*op.Heartbeat).Items[0].LeaseMs = int64(n)
	}},
	{"set-queue", "queue", job.MaxQueueName, api.ValidationError, func(o op.Op, n int) {
		o.(*op.SetQueue).Queue = long(n)
	}},
	{"delete-queue", "queue", job.MaxQueueName, api.ValidationError, func(o op.Op, n int) {
		o.(*op.DeleteQueue).Queue = long(n)
	}},
	{"set-queue", "max_concurrency", job.MaxConcurrency, api.ValidationError, func(o op.Op, n int) {
		most := uint32(n)
		o.(*op.SetQueue).MaxConcurrency = &most
	}},
	{"promote", "job_ids", job.MaxDutyItems, api.ValidationError, func(o op.Op, n int) { o.(*op.Promote).JobIds = ids(n, 16) }},
	{"reclaim", "job_ids", job.MaxDutyItems, api.ValidationError, func(o op.Op, n int) { o.(*op.Reclaim).JobIds = ids(n, 16) }},
	{"purge-idempotency", "record_ids", job.MaxDutyItems, api.ValidationError, func(o op.Op, n int) { o.(*op.PurgeIdempotency).RecordIds = ids(n, 16) }},
	{"promote", "job_ids[0]", 16, api.ValidationError, func(o op.Op, n int) { o.(*op.Promote).JobIds = ids(1, n) }},
	{"create-key", "key.id", job.MaxKeyID, api.ValidationError, func(o op.Op, n int) { o.(*op.CreateKey).Key.Id = long(n) }},
	{"create-key", "key.name", job.MaxKeyName, api.ValidationError, func(o op.Op, n int) { o.(*op.CreateKey).Key.Name = long(n) }},
	{"create-key", "key.hash", 32, api.ValidationError, func(o op.Op, n int) { o.(*op.CreateKey).Key.Hash = make([]byte, n) }},
	{"create-key", "key.roles", job.MaxKeyRoles, api.ValidationError, func(o op.Op, n int) {
		o.(*op.CreateKey).Key.Roles = strings.Split(strings.Repeat("r,", n-1)+"r", ",")
	}},
	{"create-key", "key.roles[0]", job.MaxKeyRole, api.ValidationError, func(o op.Op, n int) { o.(*op.CreateKey).Key.Roles[0] = long(n) }},
	{"create-key", "key.queue_scope", job.MaxKeyScope, api.ValidationError, func(o op.Op, n int) {
		o.(*op.CreateKey).Key.QueueScope = strings.Split(strings.Repeat("r,", n-1)+"r", ",")
	}},
	{"create-key", "key.queue_scope[0]", job.MaxKeyGlob, api.ValidationError, func(o op.Op, n int) {
		o.(*op.CreateKey).Key.QueueScope = []string{long(n)}
	}},
	{"revoke-key", "id", job.MaxKeyID, api.ValidationError, func(o op.Op, n int) { o.(*op.RevokeKey).Id = long(n) }},
}

func long(n int) string { return strings.Repeat("x", n) }

func numbered(n int) (out []*job.Pair) {
	for i := range n {
		out = append(out, &job.Pair{Name: fmt.Sprintf("n%05d", i)})
	}
	return out
}

func ids(n, size int) (out [][]byte) {
	for range n {
		out = append(out, make([]byte, size))
	}
	return out
}

func TestBounds(t *testing.T) {
	t.Parallel()
	for _, b := range bounds {
		name := b.op + " " + b.field
		o := valid(t)[b.op]
		b.set(o, b.at)
		if err := o.Validate(); err != nil {
			t.Errorf("%s at the bound of %d: %v", name, b.at, err)
		}
		o = valid(t)[b.op]
		b.set(o, b.at+1)
		err := o.Validate()
		if api.CodeOf(err) != b.beyond || !strings.HasPrefix(problemsOf(err)[0].Field, b.field) {
			t.Errorf("%s beyond the bound of %d: %v, want %s", name, b.at, err, b.beyond)
		}
	}
}

func problemsOf(err error) []api.FieldError {
	var refusal *api.Error
	if !errors.As(err, &refusal) {
		return []api.FieldError{{}}
	}
	fields, _ := refusal.Details["fields"].([]api.FieldError)
	return append(fields, api.FieldError{})
}

func TestOpSizeBound(t *testing.T) {
	t.Parallel()
	w := &world{t: t, clockNs: epochNs}
	o := w.newJobs("q", 2)
	o.Jobs[0].Payload.Data = make([]byte, job.MaxPayload)
	o.Jobs[1].Payload.Data = make([]byte, 3<<20)
	// This payload fills the op to its bound; the length prefixes keep their width.
	o.Jobs[1].Payload.Data = make([]byte, 3<<20+job.MaxOpBytes-o.SizeVT())
	if o.SizeVT() != job.MaxOpBytes {
		t.Fatalf("the op has %d bytes", o.SizeVT())
	}
	if err := o.Validate(); err != nil {
		t.Errorf("at the bound: %v", err)
	}
	o.Jobs[1].Payload.Data = append(o.Jobs[1].Payload.Data, 0)
	if err := o.Validate(); api.CodeOf(err) != api.PayloadTooLarge {
		t.Errorf("beyond the bound: %v", err)
	}
}

func TestAllProblemsAreListed(t *testing.T) {
	t.Parallel()
	w := &world{t: t, clockNs: epochNs}
	o := w.newJobs("q", 2)
	o.Jobs[0].Queue = "a b"
	o.Jobs[1] = &op.NewJob{Queue: "q", Checkpoint: &job.Blob{Data: make([]byte, job.MaxCheckpoint+1)}, ScheduledNs: -1}
	err := o.Validate()
	var got []string
	for _, p := range problemsOf(err) {
		got = append(got, p.Field)
	}
	want := "jobs[0].queue jobs[1].checkpoint jobs[1].payload jobs[1].retry jobs[1].scheduled_at meta.ids[0] "
	if strings.Join(got, " ") != want || api.CodeOf(err) != api.ValidationError {
		t.Errorf("%v lists\n%s, want\n%s", err, strings.Join(got, " "), want)
	}
	// The list is bounded, the count is not.
	many := &op.Promote{JobIds: ids(fault.MaxListed, 3)}
	if n := len(problemsOf(many.Validate())) - 1; n != fault.MaxListed {
		t.Errorf("%d problems are listed as %d", fault.MaxListed, n)
	}
	many.JobIds = ids(fault.MaxListed+1, 3)
	err = many.Validate()
	if n := len(problemsOf(err)) - 1; n != fault.MaxListed || !strings.HasSuffix(err.Error(), fmt.Sprintf("; and %d more", fault.MaxListed-2)) {
		t.Errorf("%d problems are listed as %d: %v", fault.MaxListed+1, n, err)
	}
}
