package job

import (
	"fmt"
	"math"
	"time"
)

// These are short names of the iteration statuses.
const (
	Continue = IterationStatus_ITERATION_STATUS_CONTINUE
	Done     = IterationStatus_ITERATION_STATUS_DONE
	Suspend  = IterationStatus_ITERATION_STATUS_HOLD
)

var iterationWords = [...]string{"", "continue", "done", "hold"}

// Word returns the status as clients write it.
func (s IterationStatus) Word() string {
	if s < 0 || int(s) >= len(iterationWords) {
		return fmt.Sprintf("status(%d)", int32(s))
	}
	return iterationWords[s]
}

// ParseIterationStatus converts the text of Word back.
func ParseIterationStatus(word string) (IterationStatus, bool) {
	for s, w := range iterationWords {
		if w == word && w != "" {
			return IterationStatus(s), true
		}
	}
	return 0, false
}

// CheckAgent reports all faults of an agent's bounds; nil bounds have none.
func CheckAgent(a *AgentConfig) []error {
	if a == nil {
		return nil
	}
	var errs []error
	if a.MaxIterations > MaxIterations {
		errs = append(errs, fmt.Errorf("max_iterations is %d; at most %d are kept", a.MaxIterations, MaxIterations))
	}
	if a.MaxCostNanoUsd < 0 || a.MaxCostNanoUsd > MaxMoney {
		errs = append(errs, fmt.Errorf("max_cost_usd lies outside 0 to a billion dollars"))
	}
	if ms := a.IterationTimeoutMs; ms < 0 || ms > MaxIterationTime.Milliseconds() {
		errs = append(errs, fmt.Errorf("iteration_timeout is %d ms; it lies between 0 and %s", ms, MaxIterationTime))
	}
	return errs
}

// AgentCost returns the cost of j that counts against its agent's max_cost: the cost of the current run of
// iterations, without the cost of runs before a retry. In a replay it includes the cost of the iterations
// that the replay continues.
func (j *Job) AgentCost() int64 {
	before, cost := j.GetDetail().GetSpentBeforeNanoUsd(), j.GetUsage().GetCostNanoUsd()
	if before > 0 && cost > math.MaxInt64-before {
		return math.MaxInt64
	}
	return before + cost
}

// IterationTimeout returns the longest time an attempt of j may run. 0 means as long as its worker renews the
// lease.
func (j *Job) IterationTimeout() time.Duration {
	return time.Duration(j.GetOptions().GetAgent().GetIterationTimeoutMs()) * time.Millisecond
}

// DocumentBytes returns the size of the documents in an iteration's record.
func (i *Iteration) DocumentBytes() uint64 {
	return uint64(len(i.GetCheckpoint().GetData()) + len(i.GetTrace().GetData()) + len(i.GetResult().GetData()))
}

// Since returns the part of the usage u that came after the usage in before, or nil if there is none.
func (u *Usage) Since(before *Usage) *Usage {
	more := &Usage{
		InputTokens:         u.GetInputTokens() - before.GetInputTokens(),
		OutputTokens:        u.GetOutputTokens() - before.GetOutputTokens(),
		CacheCreationTokens: u.GetCacheCreationTokens() - before.GetCacheCreationTokens(),
		CacheReadTokens:     u.GetCacheReadTokens() - before.GetCacheReadTokens(),
		CostNanoUsd:         u.GetCostNanoUsd() - before.GetCostNanoUsd(),
	}
	if more.SizeVT() == 0 {
		return nil
	}
	more.Model, more.Provider = u.GetModel(), u.GetProvider()
	return more
}
