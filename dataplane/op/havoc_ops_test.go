package op_test

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// any returns some op for a shard, nil if there is nothing to build it from.
func (h *havoc) any(s *havocShard) op.Op {
	ops := []func(*havocShard) op.Op{
		h.enqueue, h.enqueue, h.enqueue, h.fetch, h.fetch, h.ack, h.ack, h.fail, h.fail, h.heartbeat,
		h.action, h.action, h.action, h.duty, h.duty, h.move, h.move, h.deliver, h.deliver, h.deliver,
		h.batch, h.schedule, h.schedule, h.queue, h.queue, h.again, h.declares, h.declares, h.lets, h.lets,
	}
	return ops[h.below(len(ops), "op")](s)
}

// queueOn returns a queue of a shard.
func (h *havoc) queueOn(s *havocShard) string {
	var names []string
	for _, name := range havocQueues {
		if homes[name] == s.number {
			names = append(names, name)
		}
	}
	return rapid.SampledFrom(names).Draw(h.t, "queue")
}

func (h *havoc) anyQueue() string { return rapid.SampledFrom(havocQueues).Draw(h.t, "any queue") }

// pick returns one of the ids, sometimes one of another kind or none.
func (h *havoc) pick(ids [][]byte) []byte {
	if len(ids) == 0 || h.once(40, "other") {
		all := append(append(append([][]byte{make([]byte, 16)}, h.jobs...), h.batches...), h.schedules...)
		return rapid.SampledFrom(all).Draw(h.t, "any id")
	}
	// The newest are most likely to exist.
	return ids[max(0, len(ids)-1-h.below(12, "id"))]
}

func (h *havoc) some(ids [][]byte) (some [][]byte) {
	for range 1 + h.below(4, "some") {
		some = append(some, h.pick(ids))
	}
	return some
}

func (h *havoc) meta() *op.Meta {
	if h.once(8, "idempotent") {
		return idempotent("", fmt.Sprint("k", h.below(3, "key")), "r")
	}
	return &op.Meta{}
}

func (h *havoc) enqueue(s *havocShard) op.Op {
	o := &op.Enqueue{Meta: h.meta()}
	queue := ""
	for i := range 1 + h.below(3, "jobs") {
		if i == 0 || h.once(3, "other queue") {
			queue = h.queueOn(s)
		}
		made := h.w.newJobs(queue, 1)
		o.Meta.Ids, o.Jobs = append(o.Meta.Ids, made.Meta.Ids...), append(o.Jobs, made.Jobs...)
		h.terms(made.Jobs[0])
	}
	switch h.below(5, "batch") {
	case 0:
		id := h.w.newID(o.Jobs[0].Queue)
		o.Meta.Ids = append(o.Meta.Ids, id[:])
		o.Batch = &op.NewBatch{Open: h.once(2, "open")}
		if h.once(2, "callback") {
			o.Batch.CallbackQueue = h.anyQueue()
			o.Batch.CallbackShard = homes[o.Batch.CallbackQueue]
		}
		if h.once(3, "nested") {
			o.Batch.ParentId = h.pick(h.batches)
		}
		h.know(&h.batches, id[:])
	case 1:
		o.BatchId = h.pick(h.batches)
	}
	return o
}

// terms sets the options of a new job.
func (h *havoc) terms(nj *op.NewJob) {
	h.governs(nj)
	nj.Retry.MaxAttempts = uint32(1 + h.below(2, "attempts"))
	nj.Retry.Backoff = job.BackoffNone
	nj.Priority = uint32(h.below(3, "priority"))
	switch h.below(6, "key") {
	case 0, 1:
		nj.Opt().UniqueKey, nj.Opt().UniquePeriodMs = fmt.Sprint("u", h.below(2, "unique")), int64(1+h.below(2, "period")*100_000)
		nj.Opt().UniqueWholePeriod = h.once(2, "whole")
	case 2:
		nj.Opt().DebounceKey, nj.Opt().DebounceMs = "d", int64(1+h.below(2, "debounce")*100_000)
	case 3:
		nj.ScheduledNs = h.w.clockNs + int64(h.below(3, "later"))*int64(time.Minute)
	}
	if h.once(4, "expires") {
		nj.Opt().ExpireAfterMs = int64(1 + h.below(2, "expiry")*100_000)
	}
	if h.once(3, "agent") {
		nj.Opt().Agent = &job.AgentConfig{MaxIterations: uint32(h.below(3, "iterations")), MaxCostNanoUsd: int64(h.below(3, "most")), IterationTimeoutMs: int64(h.below(2, "timeout")) * 1000}
	}
	if h.once(3, "depends") && len(h.jobs) > 0 {
		for _, id := range h.some(h.jobs) {
			nj.DependsOn = append(nj.DependsOn, &op.Dependency{JobId: id, Shard: homeOf(id)})
		}
		nj.Opt().DependencyPolicy = job.DependencyPolicy(h.below(3, "policy"))
	}
	if h.once(3, "chain") {
		nj.Chain = &job.Chain{Steps: []*job.Step{{Queue: nj.Queue, Shard: homes[nj.Queue]}}}
		for range h.below(3, "steps") {
			nj.Chain.Steps = append(nj.Chain.Steps, h.stepTo())
		}
		if h.once(2, "exit") {
			nj.Chain.Exit = h.stepTo()
		}
		if nj.Chain.OnFailure = job.OnFailure(h.below(3, "on failure")); nj.Chain.OnFailure == job.OnFailure_ON_FAILURE_QUEUE {
			nj.Chain.Failure = h.stepTo()
		}
	}
}

func (h *havoc) stepTo() *job.Step {
	queue := h.anyQueue()
	return &job.Step{Queue: queue, Shard: homes[queue]}
}

// homeOf returns the shard on which an id was created.
func homeOf(id []byte) uint32 {
	for queue, shard := range homes {
		if job.ID(id).Slot() == job.SlotOf(queue) {
			return shard
		}
	}
	return 0
}

func (h *havoc) fetch(s *havocShard) op.Op {
	f := h.w.fetch(h.queueOn(s), uint32(1+h.below(4, "count")))
	f.Queues = append(f.Queues, h.queueOn(s))
	return f
}

// proofs returns proofs of leases, right ones and others.
func (h *havoc) proofs(s *havocShard) (all []*op.LeaseProof) {
	for j := range h.here(s) {
		if len(all) < 3 && (j.State == job.Active && h.once(2, "this") || h.once(12, "wrong")) {
			all = append(all, &op.LeaseProof{Id: j.Id, Token: j.GetLease().GetToken()})
		}
	}
	return all
}

// here yields the jobs of a shard.
func (h *havoc) here(s *havocShard) func(func(*job.Job) bool) {
	return func(yield func(*job.Job) bool) {
		v := s.store.Snapshot()
		defer v.Close()
		for j, err := range v.Jobs() {
			if err != nil {
				h.t.Fatal(err)
			}
			if !yield(j) {
				return
			}
		}
	}
}

func (h *havoc) ack(s *havocShard) op.Op {
	o := &op.Ack{Meta: h.meta()}
	for _, p := range h.proofs(s) {
		item := &op.AckItem{Proof: p, ExitChain: h.once(4, "exits")}
		if h.once(2, "result") {
			item.Result = &job.Blob{Data: []byte("1")}
		}
		if h.once(3, "usage") {
			item.Usage = &job.Usage{InputTokens: 1, CostNanoUsd: int64(h.below(3, "cost"))}
		}
		h.iteration(item)
		o.Items = append(o.Items, item)
	}
	return o
}

func (h *havoc) fail(s *havocShard) op.Op {
	o := &op.Fail{Meta: h.meta()}
	o.Meta.RequestId = h.w.newSeed()
	for _, p := range h.proofs(s) {
		item := &op.FailItem{Proof: p, Reason: op.FailReason(h.below(3, "reason"))}
		if item.Reason != op.FailReason_FAIL_REASON_UNDELIVERED {
			item.Error, item.Usage = "no\x00\n", &job.Usage{OutputTokens: 1}
		}
		o.Items = append(o.Items, item)
	}
	return o
}

func (h *havoc) heartbeat(s *havocShard) op.Op {
	o := &op.Heartbeat{Meta: h.meta()}
	o.Meta.RequestId = h.w.newSeed()
	for _, p := range h.proofs(s) {
		o.Items = append(o.Items, &op.HeartbeatItem{Proof: p, Progress: &job.Blob{Data: []byte("1")}, Usage: &job.Usage{InputTokens: 2}})
	}
	return o
}

// action returns an action of a person on jobs.
func (h *havoc) action(*havocShard) op.Op {
	m, ids := h.meta(), h.some(h.jobs)
	return []op.Op{
		&op.CancelJobs{Meta: m, JobIds: ids},
		&op.RetryJobs{Meta: m, JobIds: ids},
		&op.RetryJobs{Meta: m, JobIds: ids, Requeue: true},
		&op.HoldJobs{Meta: m, JobIds: ids},
		&op.ReleaseJobs{Meta: m, JobIds: ids},
		&op.RejectJobs{Meta: m, JobIds: ids},
		&op.DeleteJobs{Meta: m, JobIds: ids},
		h.replay(m),
		&op.ScoreJob{Meta: m, JobId: ids[0], Score: &job.Score{Dimension: "d", Scorer: fmt.Sprint(h.below(2, "scorer"))}},
	}[h.below(9, "action")]
}

// duty returns an op that the leader proposes by itself, right or wrong.
func (h *havoc) duty(s *havocShard) op.Op {
	if h.once(2, "right") {
		duties := h.due(s)
		if len(duties) == 0 {
			return nil
		}
		return rapid.SampledFrom(duties).Draw(h.t, "due")
	}
	ids := h.some(h.jobs)
	return []op.Op{
		&op.Promote{JobIds: ids}, &op.Reclaim{JobIds: ids}, &op.ExpireJobs{JobIds: ids}, &op.ReleaseUnique{JobIds: ids},
		&op.PurgeJobs{JobIds: ids}, &op.ResolveDependents{JobIds: ids}, &op.PurgeBatches{BatchIds: h.some(h.batches)},
		&op.Replenish{Queues: []string{h.anyQueue()}}, &op.StartTerm{},
	}[h.below(9, "duty")]
}

// due returns the ops of the due timers.
func (h *havoc) due(s *havocShard) (ops []op.Op) {
	for _, duty := range []struct {
		class state.TimerClass
		make  func(ids [][]byte) op.Op
	}{
		{state.TimerScheduled, func(ids [][]byte) op.Op { return &op.Promote{JobIds: ids} }},
		{state.TimerRetry, func(ids [][]byte) op.Op { return &op.Promote{JobIds: ids} }},
		{state.TimerLease, func(ids [][]byte) op.Op { return &op.Reclaim{JobIds: ids} }},
		{state.TimerExpiry, func(ids [][]byte) op.Op { return &op.ExpireJobs{JobIds: ids} }},
		{state.TimerUnique, func(ids [][]byte) op.Op { return &op.ReleaseUnique{JobIds: ids} }},
		{state.TimerBatch, func(ids [][]byte) op.Op { return &op.PurgeBatches{BatchIds: ids} }},
		{state.TimerDependents, func(ids [][]byte) op.Op { return &op.ResolveDependents{JobIds: ids} }},
	} {
		ids, err := s.store.Due(duty.class, h.w.clockNs, 100)
		if err != nil {
			h.t.Fatal(err)
		}
		var all [][]byte
		for i := range ids {
			all = append(all, ids[i][:])
		}
		if len(all) > 0 {
			ops = append(ops, duty.make(all))
		}
	}
	over, _, err := s.store.RetentionDue(h.w.clockNs, 100)
	if err != nil {
		h.t.Fatal(err)
	}
	if len(over) > 0 {
		o := &op.PurgeJobs{}
		for i := range over {
			o.JobIds = append(o.JobIds, over[i][:])
		}
		ops = append(ops, o)
	}
	return ops
}

func (h *havoc) move(*havocShard) op.Op {
	queue := h.anyQueue()
	return &op.MoveJobs{Meta: h.meta(), JobIds: h.some(h.jobs), Queue: queue, Shard: homes[queue]}
}

// deliver brings a shard the ops that the other has sent. The delivery must pass Validate, because otherwise
// neither it nor anything behind it would ever be delivered.
func (h *havoc) deliver(s *havocShard) op.Op {
	from := h.shards[1-s.number]
	rows, err := from.store.Outgoing(s.number, 0, 1+h.below(10, "rows"), 1<<30)
	if err != nil {
		h.t.Fatal(err)
	}
	if len(rows) == 0 {
		return nil
	}
	if h.once(3, "trim") {
		last := h.applied[[2]uint32{from.number, s.number}]
		if last >= rows[0].Seq {
			h.apply(from, &op.TrimOutbox{Shard: s.number, UpTo: last})
			return nil
		}
	}
	return h.delivery(from, rows)
}

func (h *havoc) delivery(from *havocShard, rows []state.OutgoingRow) op.Op {
	incarnation := from.incarnation()
	o := &op.Deliver{From: from.number, Incarnation: incarnation[:], FirstSeq: rows[0].Seq}
	for _, row := range rows {
		o.Items = append(o.Items, &op.Sent{Number: row.Op.Number, Op: row.Op.Op})
	}
	if err := o.Validate(); err != nil {
		h.t.Fatalf("what shard %d sends will never arrive: %v", from.number, err)
	}
	return o
}

func (h *havoc) batch(*havocShard) op.Op {
	return &op.SealBatch{Meta: h.meta(), BatchId: h.pick(h.batches)}
}

// schedule returns an op on schedules, which all lie on the shard that they are put on.
func (h *havoc) schedule(s *havocShard) op.Op {
	id := h.pick(h.schedules)
	known, err := s.store.Schedule([16]byte(id))
	if err != nil {
		h.t.Fatal(err)
	}
	switch h.below(5, "schedule op") {
	case 0:
		return &op.PauseSchedule{Meta: h.meta(), Id: id, Paused: h.once(2, "pause"), NextRunNs: h.w.clockNs + int64(time.Minute)}
	case 1:
		return &op.DeleteSchedule{Meta: h.meta(), Id: id}
	case 2, 3:
		if known == nil {
			return &op.RunSchedules{Runs: []*op.Run{{Id: id, ByHand: true}}}
		}
		at := known.NextRunNs
		runs := []*op.Run{{Id: id, Version: known.Version, DueNs: at, RunNs: []int64{at, at + 1e9}, NextRunNs: at + 2e9}, {Id: id, ByHand: true}}
		return &op.RunSchedules{Runs: runs[h.below(2, "by hand"):]}
	}
	rec := h.w.newSchedule(fmt.Sprint("s", h.below(3, "name")))
	rec.Queue = h.anyQueue()
	rec.Shard = homes[rec.Queue]
	if h.once(2, "unique run") {
		rec.UniqueKey = fmt.Sprint("u", h.below(2, "unique"))
	}
	create := known == nil || h.once(2, "create")
	if !create {
		rec.Id = id
	}
	h.know(&h.schedules, rec.Id)
	return &op.PutSchedule{Meta: h.meta(), Schedule: rec, Create: create}
}

// queue returns an op on a queue.
func (h *havoc) queue(s *havocShard) op.Op {
	queue := h.queueOn(s)
	switch h.below(7, "queue op") {
	case 0:
		return &op.ClearQueue{Meta: h.meta(), Queue: queue}
	case 1:
		return &op.DeleteQueue{Meta: h.meta(), Queue: queue}
	case 2, 3:
		return &op.SweepQueue{Queue: queue, JobIds: h.some(h.jobs), Last: h.once(2, "last"), Below: uint64(h.below(20, "below"))}
	case 4:
		return &op.SetSettings{Settings: &state.Settings{Retention: &job.Retention{CompletedMs: int64(h.below(2, "kept")) * 1000}}}
	}
	o := &op.SetQueue{Meta: h.meta(), Queue: queue}
	switch h.below(8, "setting") {
	case 0:
		o.Paused = ptr(h.once(3, "paused"))
	case 1:
		o.MaxConcurrency = ptr(uint32(h.below(3, "concurrency")))
	case 2:
		o.RateLimit, o.RateWindowMs = ptr(uint32(h.below(3, "rate"))), ptr(int64(1000+h.below(2, "window")*59_000))
	case 3, 4:
		o.MaxLength, o.Overflow = ptr(uint64(h.below(4, "length"))), ptr(job.Overflow(h.below(2, "overflow")))
	case 5:
		o.Draining = ptr(h.once(3, "draining"))
	case 6:
		o.Provider = ptr([]string{"", "p0", "p1"}[h.below(3, "queue's provider")])
	case 7:
		o.AgeingMs = ptr(int64(h.below(2, "ageing")) * 1000)
	}
	return o
}

// again returns an op that was applied before.
func (h *havoc) again(s *havocShard) op.Op {
	if len(s.last) == 0 {
		return nil
	}
	o := rapid.SampledFrom(s.last).Draw(h.t, "again")
	if e, ok := o.(*op.Enqueue); ok && !h.known(s, e) || !op.NewCodec().Repeats(op.Proposal(o)) {
		return nil
	}
	return o
}

// known reports whether a shard knows a job of an enqueue, by which its repeat is recognised.
func (h *havoc) known(s *havocShard, o *op.Enqueue) bool {
	for _, id := range o.Meta.Ids {
		j, err := s.store.Job(job.ID(id))
		f, errs := s.store.Forwarded(job.ID(id))
		if err != nil || errs != nil {
			h.t.Fatal(err, errs)
		}
		if j != nil || f != nil {
			return true
		}
	}
	return false
}
