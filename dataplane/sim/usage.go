package sim

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

func tokensOf(u *job.Usage) [4]int64 {
	return [4]int64{u.GetInputTokens(), u.GetOutputTokens(), u.GetCacheCreationTokens(), u.GetCacheReadTokens()}
}

// tagsText returns tags in a form that can be compared.
func tagsText(tags []*job.Pair) (text string) {
	for _, t := range tags {
		text += fmt.Sprintf("%q=%q ", t.GetName(), t.GetValue())
	}
	return text
}

// sum adds a usage.
func (u *modelUsage) sum(tokens [4]int64, costNano int64) {
	u.costNano += costNano
	for i, n := range tokens {
		u.tokens[i] += n
	}
}

// compareUsage compares a store's usage rows with the reports that the model has recorded. Both must have the
// same rows, under consecutive numbers, from the same first row on.
func (m *model) compareUsage(v *state.Snapshot) error {
	head := v.Head()
	if next := uint64(len(m.usage)) + 1; head.GetUsageFirstSeq() != m.usageFirst || head.GetUsageNextSeq() != next {
		return fmt.Errorf("the store has the usage rows [%d,%d), the model [%d,%d)", head.GetUsageFirstSeq(), head.GetUsageNextSeq(), m.usageFirst, next)
	}
	if head.GetUsageRejected() != m.rejections {
		return fmt.Errorf("the store has rejected %d usage reports, the model %d", head.GetUsageRejected(), m.rejections)
	}
	if head.GetMeteredNs() != m.meteredNs {
		return fmt.Errorf("the store has recorded the open time up to %d, the model up to %d", head.GetMeteredNs(), m.meteredNs)
	}
	seq := m.usageFirst
	for row, err := range v.Usage(0) {
		if err != nil {
			return err
		}
		r := row.Record
		is := modelUsage{
			job: idOf(r), attempt: r.GetAttempt(), queue: r.GetQueue(), atNs: r.GetClockNs(),
			model: r.GetReport().GetModel(), provider: r.GetReport().GetProvider(),
			tokens: tokensOf(r.GetReport()), costNano: r.GetReport().GetCostNanoUsd(), said: r.GetReport().GetCostReported(),
			computed: r.GetComputedNanoUsd(), isComputed: r.GetComputed(), unpriced: r.GetUnpriced(),
			phase: r.GetPhase(), first: r.GetFirst(), key: r.GetFairnessKey(), tags: tagsText(r.GetTags()),
			rejected: r.GetReport().GetRejected(), meters: metersText(r.Meters),
		}
		if row.Seq != seq || seq > uint64(len(m.usage)) || is != m.usage[seq-1] {
			return fmt.Errorf("usage row %d is %+v in the store, row %d is %+v in the model", row.Seq, is, seq, m.usage[seq-1])
		}
		seq++
	}
	if seq != head.GetUsageNextSeq() {
		return fmt.Errorf("the usage rows end before %d, the head says %d", seq, head.GetUsageNextSeq())
	}
	return nil
}

// idOf returns the job of a usage row, which is the zero id in a row with meters.
func idOf(r *state.Usage) (id job.ID) {
	copy(id[:], r.GetJobId())
	return id
}

func (w *workload) trimUsage() op.Op {
	next := uint64(len(w.m.usage)) + 1
	first := w.m.usageFirst + w.rng.Uint64N(next-w.m.usageFirst+1)
	if w.chance(5) { // before the first row, or beyond the last
		first = 1 + w.rng.Uint64N(next+2)
	}
	return &op.TrimUsage{Meta: &op.Meta{Principal: "duty"}, FirstSeq: first}
}
