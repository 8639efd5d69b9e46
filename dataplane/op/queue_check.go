package op

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/state"
)

// queueCheck is one condition under which a queue gives out no jobs.
type queueCheck struct {
	reason Reason
	keeps  func(q *state.Queue, clockNs int64) bool
	text   func(q *state.Queue) string
}

// queueChecks are all conditions of a queue itself; state's lanes check the limits of its fairness keys. Both
// the decision whether a queue gives out one more job and the reasons that clients read come from this table.
var queueChecks = [...]queueCheck{
	{ReasonQueueDeleting,
		func(q *state.Queue, _ int64) bool { return q.Deleting },
		func(q *state.Queue) string {
			return fmt.Sprintf("queue %q is being deleted, and its jobs with it", q.Name)
		}},
	{ReasonQueueDraining,
		func(q *state.Queue, _ int64) bool { return q.Paused && q.Draining },
		func(q *state.Queue) string {
			return fmt.Sprintf("queue %q drains: resume it to have its jobs fetched again", q.Name)
		}},
	{ReasonQueuePaused,
		func(q *state.Queue, _ int64) bool { return q.Paused && !q.Draining },
		func(q *state.Queue) string {
			return fmt.Sprintf("queue %q is paused: resume it to have its jobs fetched", q.Name)
		}},
	{ReasonQueueConcurrency,
		func(q *state.Queue, _ int64) bool {
			return q.MaxConcurrency > 0 && q.Running() >= uint64(q.MaxConcurrency)
		},
		func(q *state.Queue) string {
			return fmt.Sprintf("queue %q has %s active, and its max_concurrency is %d: one has to end first", q.Name, Jobs(q.Running()), q.MaxConcurrency)
		}},
	{ReasonQueueRate,
		func(q *state.Queue, clockNs int64) bool { return q.RateFree(clockNs) == 0 },
		func(q *state.Queue) string {
			return fmt.Sprintf("queue %q has started %s in %d ms, its rate_limit", q.Name, Jobs(q.RateLimit), q.RateWindowMs)
		}},
}

// mayFetch reports whether a queue gives out one more of its jobs. An unknown queue gives out none.
func mayFetch(q *state.Queue, clockNs int64) bool {
	if q == nil {
		return false
	}
	for i := range queueChecks {
		if queueChecks[i].keeps(q, clockNs) {
			return false
		}
	}
	return true
}
