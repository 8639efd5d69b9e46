package sim

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

func (w *workload) setQueue() op.Op {
	o := &op.SetQueue{Meta: w.meta(), Queue: w.someQueue()}
	if w.chance(2) {
		o.Paused = proto.Bool(w.chance(3))
	}
	if w.chance(2) {
		o.MaxConcurrency = proto.Uint32(uint32(w.rng.IntN(4)))
	}
	if w.chance(10) && !(o.Paused != nil && !*o.Paused) {
		o.Draining = proto.Bool(w.chance(2))
	}
	if w.chance(4) {
		o.RateLimit, o.RateWindowMs = proto.Uint32(uint32(w.rng.IntN(6))), proto.Int64(1000+w.rng.Int64N(9000))
	}
	if w.chance(4) {
		o.MaxLength = proto.Uint64(uint64(w.rng.IntN(20)))
		overflow := job.Overflow(w.rng.IntN(2))
		o.Overflow = &overflow
	}
	if w.chance(6) {
		o.Retention = w.retention()
	}
	if w.chance(6) {
		o.Defaults = w.defaults()
	}
	w.tuneQueue(o)
	return o
}

// edge returns a time at which a window that is slightly too short would show: shortly before the oldest job
// that a rate limit has let go leaves the limit's window. The limit may be a queue's, a key's or a
// provider's. edge returns 0 if no limit's window is full.
func (w *workload) edge() int64 {
	for _, name := range w.queues {
		if q := w.m.queues[name]; q != nil && len(q.takes) >= int(q.rateLimit) && len(q.takes) > 0 {
			windowNs := q.rateWindowMs * 1e6
			return q.takes[0] + windowNs - 1 - w.rng.Int64N(windowNs/64) - w.sh.skewNs
		}
	}
	return w.limitsEdge()
}

func (w *workload) retention() *job.Retention {
	kept := func() int64 { return pick(w, []int64{0, 0, job.Forever, 1 + w.rng.Int64N(20_000)}) }
	return &job.Retention{CompletedMs: kept(), DeadMs: kept(), CancelledMs: kept()}
}

func (w *workload) defaults() *state.QueueDefaults {
	d := &state.QueueDefaults{}
	if w.chance(2) {
		d.Priority, d.MaxAttempts = proto.Uint32(uint32(w.rng.IntN(job.Priorities))), proto.Uint32(uint32(1+w.rng.IntN(4)))
	}
	if w.chance(2) {
		backoff := job.BackoffFixed
		d.Backoff, d.JitterPercent = &backoff, proto.Uint32(uint32(w.rng.IntN(101)))
	}
	if w.chance(2) {
		d.BaseDelayMs = proto.Int64(w.rng.Int64N(10_000))
	}
	if w.chance(2) {
		d.MaxDelayMs = proto.Int64(w.rng.Int64N(10_000))
	}
	if w.chance(3) {
		d.ExpireAfterMs = proto.Int64(1 + w.rng.Int64N(60_000))
	}
	return d
}

func (w *workload) clearQueue() op.Op {
	return &op.ClearQueue{Meta: w.meta(), Queue: pick(w, w.queues)}
}

// deleteQueue draws mostly a queue that has no jobs.
func (w *workload) deleteQueue() op.Op {
	if w.chance(8) {
		return &op.DeleteQueue{Meta: w.meta(), Queue: pick(w, w.queues), IfSettled: w.chance(2)}
	}
	return &op.DeleteQueue{Meta: w.meta(), Queue: pick(w, w.idle), IfSettled: w.chance(2)}
}

// sweepQueue draws mostly a queue that is being cleared or deleted.
func (w *workload) sweepQueue() op.Op {
	o := &op.SweepQueue{Meta: duty(), Queue: w.someQueue(), Last: w.chance(3)}
	for _, name := range slices.Concat(w.queues, w.idle) {
		if q := w.m.queues[name]; q != nil && (q.deleting || q.clearBelow > 0) && !w.chance(4) {
			o.Queue = name
		}
	}
	if q := w.m.queues[o.Queue]; q != nil && !w.chance(8) {
		o.Below = q.clearBelow
	}
	o.JobIds = idBytes(w.some(w.oftenFew(4, 40), func(j *modelJob) bool { return j.queue == o.Queue || w.chance(20) }))
	return o
}

func (w *workload) replenish() op.Op {
	return &op.Replenish{Meta: duty(), Queues: []string{w.someQueue()}}
}

func (w *workload) setSettings() op.Op {
	o := &op.SetSettings{Meta: w.meta(), Settings: &state.Settings{}}
	if !w.chance(3) {
		o.Settings.Retention = w.retention()
	}
	if w.chance(2) {
		o.Settings.UnknownModel = state.UnknownModel_UNKNOWN_MODEL_HOLD
	}
	return o
}

// someQueue draws mostly a queue to which jobs go, and often enough one that has none.
func (w *workload) someQueue() string {
	if w.chance(3) {
		return pick(w, w.idle)
	}
	return pick(w, w.queues)
}
