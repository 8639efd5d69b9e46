package op

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// Why is one reason why a job does not run, or tells that it runs or is settled.
type Why struct {
	Reason  Reason
	Name    string // of the queue, provider, budget, worker or other cause
	Text    string // for people
	UntilNs int64  // the earliest time at which this may change; 0 = unknown
}

// Explain returns the reasons why a pending job does not run, and none if a fetch may take the job. For a job
// in another state it returns one reason, which the state gives. Each reason of a pending job keeps it back
// even without the others, except ReasonReopened, which comes alone. Of the checks of Decide, only the first
// that keeps the job back gives a reason. Explain uses the checks of a fetch, so that the two cannot
// disagree. It knows neither the workers that fetch from the job's queue nor the jobs that go before this
// one.
func Explain(g *SnapshotState, j *job.Job) ([]Why, error) {
	if j.State != job.Pending {
		return []Why{elsewhere(j)}, nil
	}
	all := queueReasons(g.Queue(j.Queue), g.ClockNs())
	lane, err := laneReasons(g, j)
	if err != nil {
		return nil, err
	}
	all = append(all, lane...)
	if at := j.Detail.GetExpireNs(); at > 0 && at <= g.ClockNs() {
		all = append(all, Why{Reason: ReasonExpired, Text: "it has reached its expiry: it becomes dead in a moment"})
	}
	v, err := Decide(g, j)
	if err == nil {
		err = g.err
	}
	if err != nil {
		return nil, err
	}
	switch {
	case v.Do != Take:
		all = append(all, Why{Reason: v.Reason, Name: v.Name, Text: v.Text, UntilNs: v.UntilNs})
	case AtGate(j) && len(all) == 0: // OpenGate moves the job only into its lane, where other reasons would keep it
		all = append(all, Why{
			Reason: ReasonReopened, Name: j.Detail.GateName,
			Text: fmt.Sprintf("%q had no capacity for it and now has: it starts soon, after the jobs that have waited longer", j.Detail.GateName),
		})
	}
	return all, nil
}

// queueReasons returns the reasons why a queue gives out no jobs. It returns none for nil, an unknown queue.
func queueReasons(q *state.Queue, clockNs int64) (all []Why) {
	if q == nil {
		return nil
	}
	for i := range queueChecks {
		c := &queueChecks[i]
		if !c.keeps(q, clockNs) {
			continue
		}
		why := Why{Reason: c.reason, Name: q.Name, Text: c.text(q)}
		if c.reason == ReasonQueueRate {
			why.UntilNs = q.Rate.FreeAt(q.RateLimit, q.RateWindowMs, clockNs)
		}
		all = append(all, why)
	}
	return all
}

// laneReasons returns the reason why a queue gives out no jobs with j's fairness key: ReasonKeyPaused,
// ReasonKeyConcurrency or ReasonKeyRate, with the name of the limit rule. It returns nothing if no rule covers the
// key, or if the rule lets a job go.
func laneReasons(g *SnapshotState, j *job.Job) ([]Why, error) {
	key := j.FairnessKey
	rule := g.ResourceIndex().RuleFor(j.Queue, key)
	if rule == nil {
		return nil, nil
	}
	l, err := g.snapshot.Lane(j.Queue, key)
	if err != nil {
		return nil, err
	}
	if l == nil {
		l = &state.Lane{}
	}
	// A job at a gate is in no lane. It counts as one of the lane's ready jobs, because it becomes one when
	// its gate opens. The snapshot decoded the record for this call alone, so it may be changed.
	l.Pending = max(l.Pending, 1)
	why := Why{Name: LimitRuleName(rule.Queue, rule.Key)}
	switch _, by := l.Room(rule, g.ClockNs()); by {
	case state.LanePaused:
		why.Reason = ReasonKeyPaused
		why.Text = fmt.Sprintf("limit rule %q pauses its fairness key %q", why.Name, key)
	case state.LaneConcurrency:
		why.Reason = ReasonKeyConcurrency
		why.Text = fmt.Sprintf("fairness key %q has %s active, and the max_concurrency of limit rule %q is %d: one has to end first", key, Jobs(l.Active), why.Name, rule.MaxConcurrency)
	case state.LaneRate:
		why.Reason, why.UntilNs = ReasonKeyRate, l.Rate.FreeAt(rule.RateLimit, rule.RateWindowMs, g.ClockNs())
		why.Text = fmt.Sprintf("fairness key %q has started %s in %d ms, the rate_limit of limit rule %q", key, Jobs(rule.RateLimit), rule.RateWindowMs, why.Name)
	default:
		return nil, nil
	}
	return []Why{why}, nil
}

// elsewhere returns the reason that the state of a job gives if the job is not pending.
func elsewhere(j *job.Job) Why {
	switch j.State {
	case job.Scheduled:
		if j.BlockedBy > 0 {
			return Why{Reason: ReasonDependencies, Text: fmt.Sprintf("it waits for %s it depends on", Jobs(j.BlockedBy))}
		}
		return Why{Reason: ReasonDue, UntilNs: j.ScheduledNs, Text: "it is scheduled for later"}
	case job.Retrying:
		return Why{Reason: ReasonRetry, UntilNs: j.ScheduledNs, Text: fmt.Sprintf("attempt %d of %d failed; the next one waits for its delay", attemptsMade(j), j.Retry.GetMaxAttempts())}
	case job.Held:
		return held(j)
	case job.Active:
		why := Why{Reason: ReasonRunning, Name: j.Lease.GetWorkerId(), UntilNs: j.Lease.GetExpiresNs()}
		why.Text = fmt.Sprintf("attempt %d runs on worker %q, which has it until its lease ends unless it renews it", j.Attempt, why.Name)
		if j.Cancelling {
			why.Reason = ReasonCancelling
			why.Text = fmt.Sprintf("worker %q is told to stop it", why.Name)
		}
		return why
	}
	return Why{Reason: ReasonSettled, Text: fmt.Sprintf("it is %s", j.State.Word())}
}

// whatToDo tells people how to release a job, by the kind of its hold.
var whatToDo = map[job.Hold]string{
	job.Hold_HOLD_REQUEST:        "approve it to have it run, or reject it",
	job.Hold_HOLD_AGENT:          "its agent asks for a person: approve it to continue, or reject it",
	job.Hold_HOLD_MAX_ITERATIONS: "approve it with a higher max_iterations to continue, or reject it",
	job.Hold_HOLD_MAX_COST:       "approve it with a higher max_cost_usd to continue, or reject it",
	job.Hold_HOLD_BUDGET:         "raise the budget, or wait for its next window, and approve it",
	job.Hold_HOLD_POLICY:         "approve it to have it run, or reject it",
	job.Hold_HOLD_DEPENDENCY:     "approve it to have it run all the same, or reject it",
}

func held(j *job.Job) Why {
	text := j.Detail.GetHoldReason()
	if text != "" {
		text += ": "
	}
	return Why{Reason: ReasonHeld, Name: j.Detail.GetHoldBy(), Text: text + whatToDo[j.Detail.GetHold()]}
}

// Jobs returns a number of jobs as text, such as "1 job" or "5 jobs".
func Jobs[N uint32 | uint64 | int64](n N) string {
	if n == 1 {
		return "1 job"
	}
	return fmt.Sprintf("%d jobs", n)
}
