package sim

import (
	"fmt"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

func (w *workload) enqueue() op.Op {
	o := &op.Enqueue{Meta: w.meta()}
	for range w.oftenFew(4, 60) {
		n := w.newJob()
		id := w.id(n.Queue)
		o.Jobs = append(o.Jobs, n)
		o.Meta.Ids = append(o.Meta.Ids, id[:])
	}
	if w.chance(5) {
		w.inBatch(o)
	}
	return o
}

func (w *workload) newJob() *op.NewJob {
	n := &op.NewJob{
		Queue:    w.jobQueue(),
		Payload:  w.payload(),
		Priority: uint32(w.rng.IntN(job.Priorities)),
		Retry: &job.Retry{
			MaxAttempts: uint32(1 + w.rng.IntN(3)),
			Backoff:     pick(w, []job.Backoff{job.BackoffNone, job.BackoffFixed, job.BackoffLinear, job.BackoffExponential}),
			BaseDelayMs: w.rng.Int64N(5000),
			MaxDelayMs:  w.rng.Int64N(20000),
		},
		Tags: w.tags(),
	}
	if w.chance(4) {
		n.Retry.JitterPercent = uint32(w.rng.IntN(101))
	}
	if w.chance(4) {
		n.ScheduledNs = w.m.clockNs + w.rng.Int64N(int64(20*time.Second)) - int64(2*time.Second)
	}
	if w.chance(4) {
		n.Defaults = uint32(w.rng.IntN(job.AllDefaults + 1))
	}
	if w.chance(6) {
		n.Opt().ExpireAfterMs = 1 + w.rng.Int64N(30000)
	}
	switch w.rng.IntN(12) {
	case 0, 1:
		n.Opt().UniqueKey, n.Opt().UniqueWholePeriod = w.key(), w.chance(3)
		n.Opt().UniquePeriodMs = 1 + w.rng.Int64N(pick(w, []int64{10_000, 3_600_000}))
	case 2:
		n.ScheduledNs, n.Opt().DebounceKey, n.Opt().DebounceMs = 0, w.key(), 1+w.rng.Int64N(10_000)
	case 3, 4:
		n.DependsOn = w.dependencies()
		n.Opt().DependencyPolicy = job.DependencyPolicy(w.rng.IntN(3))
	}
	w.spending(n)
	if w.chance(6) {
		n.Chain = w.chain(n.Queue)
	}
	w.limits(n)
	if w.agents {
		w.agency(n)
	}
	return n
}

// key draws one of few keys, so that they collide.
func (w *workload) key() string { return fmt.Sprintf("only-%d", w.rng.IntN(3)) }

func (w *workload) payload() *job.Blob {
	return &job.Blob{Data: []byte(`{"n":` + fmt.Sprint(w.rng.IntN(1000)) + `}`)}
}

func (w *workload) tags() []*job.Pair {
	if !w.chance(4) {
		return nil
	}
	return []*job.Pair{{Name: "tenant", Value: fmt.Sprint(w.rng.IntN(3))}}
}

// chain draws a chain whose first step is a job of the queue.
func (w *workload) chain(queue string) *job.Chain {
	c := &job.Chain{Steps: []*job.Step{{Queue: queue}}, OnFailure: job.OnFailure(w.rng.IntN(3))}
	for range w.rng.IntN(3) {
		c.Steps = append(c.Steps, w.chainStep())
	}
	if c.OnFailure == job.OnFailure_ON_FAILURE_QUEUE {
		c.Failure = w.chainStep()
	}
	if w.chance(2) {
		c.Exit = w.chainStep()
	}
	return c
}

func (w *workload) chainStep() *job.Step {
	to := w.anyShard()
	s := &job.Step{Queue: to.work.jobQueue(), Shard: to.number}
	if w.chance(2) {
		s.Payload = w.payload()
	}
	return s
}
