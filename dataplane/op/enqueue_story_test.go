package op_test

import (
	"fmt"
	"strings"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// enqueueOptions reads the less common options of an enqueue's jobs: unique=, period=, until=period,
// debounce-key=, debounce=, expire=, parent= (a job's name), fair= and weight=, and jitter=.
func (s *story) enqueueOptions(i item, nj *op.NewJob) {
	nj.Opt().UniqueKey = repeated(i.text("unique", ""))
	if nj.Options.GetUniqueKey() != "" {
		nj.Opt().UniquePeriodMs = job.DefaultUniquePeriod.Milliseconds()
	}
	if v, ok := i.settings["period"]; ok {
		nj.Opt().UniquePeriodMs = i.duration(s.t, v).Milliseconds()
	}
	nj.Opt().UniqueWholePeriod = i.text("until", "") == "period"
	nj.Opt().DebounceKey = repeated(i.text("debounce-key", ""))
	nj.Opt().DebounceMs = i.millis(s.t, "debounce", 0)
	nj.Opt().ExpireAfterMs = i.millis(s.t, "expire", 0)
	if cost := i.number(s.t, "estimate", 0); cost != 0 {
		nj.Opt().CostEstimateNanoUsd = int64(cost)
	}
	if name, ok := i.settings["parent"]; ok {
		nj.Opt().ParentId = s.proof(item{words: []string{name}}).Id
	}
	s.agentOptions(i, nj)
	nj.Opt().Model = i.text("model", "")
	if i.says("fair") || i.says("weight") {
		nj.FairnessKey = repeated(strings.ReplaceAll(i.text("fair", ""), "%00", "\x00"))
		nj.FairnessWeight = uint32(i.number(s.t, "weight", 0))
	}
	nj.Retry.JitterPercent = uint32(i.number(s.t, "jitter", 0))
}

// foundWord prints why an enqueue created no job.
func foundWord(e *op.Enqueued) string {
	switch e.Found {
	case op.Found_FOUND_DUPLICATE:
		return " (duplicate)"
	case op.Found_FOUND_DEBOUNCED:
		return " (debounced)"
	}
	return ""
}

// printTerms prints the options of a job's enqueue.
func (s *story) printTerms(j *job.Job) {
	if j.Options.GetUniqueKey() != "" {
		fmt.Fprintf(&s.out, "  unique %s for %d ms, whole %v, until %s\n", j.Options.GetUniqueKey(), j.Options.GetUniquePeriodMs(), j.Options.GetUniqueWholePeriod(), s.moment(j.Detail.GetUniqueExpiresNs()))
	}
	if j.Options.GetDebounceKey() != "" {
		fmt.Fprintf(&s.out, "  debounced by %s\n", j.Options.GetDebounceKey())
	}
	if j.Detail.GetExpireNs() != 0 {
		fmt.Fprintf(&s.out, "  expires %s after %d ms\n", s.moment(j.Detail.GetExpireNs()), j.Options.GetExpireAfterMs())
	}
	if len(j.Options.GetParentId()) > 0 {
		fmt.Fprintf(&s.out, "  child of %s\n", s.name(j.Options.GetParentId()))
	}
}
