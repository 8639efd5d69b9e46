package sim

import (
	"fmt"

	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

func tokensOf(u *job.Usage) [4]int64 {
	return [4]int64{u.GetInputTokens(), u.GetOutputTokens(), u.GetCacheCreationTokens(), u.GetCacheReadTokens()}
}

// meter is what usage is billed by.
type meter struct{ queue, model, provider string }

// ledger sums usage rows as whoever bills them does.
type ledger map[meter]billing.Quantities

func (l ledger) add(row modelUsage) error {
	m := meter{row.queue, row.model, row.provider}
	sum := l[m]
	err := sum.Add(billing.Quantities{
		Reports: 1, InputTokens: row.tokens[0], OutputTokens: row.tokens[1],
		CacheCreationTokens: row.tokens[2], CacheReadTokens: row.tokens[3], Cost: money.Nano(row.costNano),
	})
	l[m] = sum
	return err
}

// compareUsage holds the usage rows of a store against the reports the model
// accepted: the same rows, under consecutive numbers, from the same first on. And
// all reports together are what the jobs say they used, in each queue.
func (m *model) compareUsage(v *state.Snapshot) error {
	head := v.Head()
	if next := uint64(len(m.usage)) + 1; head.GetUsageFirstSeq() != m.usageFirst || head.GetUsageNextSeq() != next {
		return fmt.Errorf("the store has the usage rows [%d,%d), the model [%d,%d)", head.GetUsageFirstSeq(), head.GetUsageNextSeq(), m.usageFirst, next)
	}
	seq := m.usageFirst
	got := ledger{}
	for _, row := range m.usage[:m.usageFirst-1] {
		if err := got.add(row); err != nil {
			return err
		}
	}
	for row, err := range v.Usage(0) {
		if err != nil {
			return err
		}
		r := row.Record
		is := modelUsage{
			job: job.ID(r.GetJobId()), attempt: r.GetAttempt(), queue: r.GetQueue(), atNs: r.GetClockNs(),
			model: r.GetReport().GetModel(), provider: r.GetReport().GetProvider(),
			tokens: tokensOf(r.GetReport()), costNano: r.GetReport().GetCostNanoUsd(),
		}
		if row.Seq != seq || is != m.usage[seq-1] {
			return fmt.Errorf("usage row %d is %+v in the store, row %d is %+v in the model", row.Seq, is, seq, m.usage[seq-1])
		}
		if err := got.add(is); err != nil {
			return err
		}
		seq++
	}
	if seq != head.GetUsageNextSeq() {
		return fmt.Errorf("the usage rows end before %d, the head says %d", seq, head.GetUsageNextSeq())
	}
	return m.balance(got)
}

// balance compares what was ever reported with what the jobs add up to: by queue,
// since a job knows only the model it named last. The jobs of the store have been
// found to be the model's.
func (m *model) balance(got ledger) error {
	reported, used := map[string]billing.Quantities{}, map[string]billing.Quantities{}
	for by, q := range got {
		sum := reported[by.queue]
		if err := sum.Add(q); err != nil {
			return err
		}
		sum.Reports = 0 // a job does not count them
		reported[by.queue] = sum
	}
	for _, j := range m.jobs {
		sum := used[j.queue]
		if err := sum.Add(billing.Quantities{
			InputTokens: j.tokens[0], OutputTokens: j.tokens[1],
			CacheCreationTokens: j.tokens[2], CacheReadTokens: j.tokens[3], Cost: money.Nano(j.costNano),
		}); err != nil {
			return err
		}
		used[j.queue] = sum
	}
	for queue, sum := range used {
		if reported[queue] != sum {
			return fmt.Errorf("the jobs of %s used %+v, the usage rows say %+v", queue, sum, reported[queue])
		}
		delete(reported, queue)
	}
	if len(reported) > 0 {
		return fmt.Errorf("there are usage rows of queues without jobs: %v", reported)
	}
	return nil
}

func (w *workload) trimUsage() op.Op {
	next := uint64(len(w.m.usage)) + 1
	first := w.m.usageFirst + w.rng.Uint64N(next-w.m.usageFirst+1)
	if w.chance(5) { // behind, or beyond
		first = 1 + w.rng.Uint64N(next+2)
	}
	return &op.TrimUsage{Meta: &op.Meta{Principal: "duty"}, FirstSeq: first}
}

func (w *workload) deleteQueue() op.Op {
	return &op.DeleteQueue{Meta: w.meta(), Queue: w.someQueue()}
}

// someQueue is mostly one that jobs go to, and often enough one that has none.
func (w *workload) someQueue() string {
	if w.chance(2) {
		return pick(w, w.idle)
	}
	return pick(w, w.queues)
}
