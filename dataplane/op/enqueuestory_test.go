package op_test

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// enqueueOptions reads what a job of an enqueue may say besides what most do:
// unique=, period=, until=period, debounce-key=, debounce=, expire=, parent= (a job's
// name) and jitter=.
func (s *story) enqueueOptions(i item, nj *op.NewJob) {
	nj.UniqueKey = repeated(i.text("unique", ""))
	if nj.UniqueKey != "" {
		nj.UniquePeriodMs = job.DefaultUniquePeriod.Milliseconds()
	}
	if v, ok := i.settings["period"]; ok {
		nj.UniquePeriodMs = i.duration(s.t, v).Milliseconds()
	}
	nj.UniqueWholePeriod = i.text("until", "") == "period"
	nj.DebounceKey = repeated(i.text("debounce-key", ""))
	nj.DebounceMs = i.millis(s.t, "debounce", 0)
	nj.ExpireAfterMs = i.millis(s.t, "expire", 0)
	if name, ok := i.settings["parent"]; ok {
		nj.ParentId = s.proof(item{words: []string{name}}).Id
	}
	nj.Retry.JitterPercent = uint32(i.number(s.t, "jitter", 0))
}

// foundWord says what an enqueue found instead of making a job.
func foundWord(e *op.Enqueued) string {
	switch e.Found {
	case op.Found_FOUND_DUPLICATE:
		return " (duplicate)"
	case op.Found_FOUND_DEBOUNCED:
		return " (debounced)"
	}
	return ""
}

// printTerms prints what a job's enqueue asked for.
func (s *story) printTerms(j *job.Job) {
	if j.UniqueKey != "" {
		fmt.Fprintf(&s.out, "  unique %s for %d ms, whole %v, until %s\n", j.UniqueKey, j.UniquePeriodMs, j.UniqueWholePeriod, s.moment(j.UniqueExpiresNs))
	}
	if j.DebounceKey != "" {
		fmt.Fprintf(&s.out, "  debounced by %s\n", j.DebounceKey)
	}
	if j.ExpireNs != 0 {
		fmt.Fprintf(&s.out, "  expires %s after %d ms\n", s.moment(j.ExpireNs), j.ExpireAfterMs)
	}
	if len(j.ParentId) > 0 {
		fmt.Fprintf(&s.out, "  child of %s\n", s.name(j.ParentId))
	}
}
