package op

import (
	"fmt"

	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/job"
)

// This file enforces the limits on the number of iterations of an agent's job and on their cost. The limit on
// the time of an iteration bounds its leases instead: see leaseEnd.

// agentReason is the hold reason when the agent gives none.
const agentReason = "held by its agent"

// agentLimit checks, after an iteration has ended, whether a limit keeps the job from its next one. It
// returns the kind of hold and the text for people; an empty text means that the job may go on. A person who
// approves the held job without new limits allows it one more iteration. After job.MaxIterations that
// iteration has to end the job.
func agentLimit(j *job.Job) (job.Hold, string) {
	agent, n := j.Options.GetAgent(), j.Detail.GetIteration()
	if most := agent.GetMaxIterations(); most > 0 && n >= most || n >= job.MaxIterations {
		return job.Hold_HOLD_MAX_ITERATIONS, fmt.Sprintf("has had %d iterations, and its max_iterations is %d: approve it to let it have one more, or reject it", n, limitOr(most, job.MaxIterations))
	}
	if most := agent.GetMaxCostNanoUsd(); most > 0 && j.AgentCost() >= most {
		return job.Hold_HOLD_MAX_COST, costReason(j, 0)
	}
	return 0, ""
}

func limitOr(most, otherwise uint32) uint32 {
	if most == 0 {
		return otherwise
	}
	return min(most, otherwise)
}

func costReason(j *job.Job, estimate int64) string {
	text := fmt.Sprintf("has cost %s USD", money.Nano(j.AgentCost()))
	if estimate > 0 {
		text += fmt.Sprintf(" and is expected to cost %s more", money.Nano(estimate))
	}
	return fmt.Sprintf("%s, and its max_cost_usd is %s: approve it to let it have one more iteration, or reject it", text, money.Nano(j.Options.GetAgent().GetMaxCostNanoUsd()))
}

// checkAgent holds a job whose agent has too little money left for another attempt. A job that was held for its
// cost and approved without new limits passes until its next iteration has ended.
func checkAgent(_ DecisionState, j *job.Job) (Verdict, error) {
	most := j.Options.GetAgent().GetMaxCostNanoUsd()
	if most == 0 || j.Detail.GetCostWaived() {
		return Verdict{}, nil
	}
	spent, estimate := j.AgentCost(), j.Options.GetCostEstimateNanoUsd()
	if spent < most && estimate <= most-max(spent, 0) {
		return Verdict{}, nil
	}
	return Verdict{Do: Hold, Reason: ReasonAgent, Text: costReason(j, estimate), Hold: job.Hold_HOLD_MAX_COST}, nil
}

// overCost reports whether an agent's job has cost more than its max_cost, and nobody has waived that limit.
func overCost(j *job.Job) bool {
	most := j.Options.GetAgent().GetMaxCostNanoUsd()
	return most > 0 && !j.Detail.GetCostWaived() && j.AgentCost() > most
}
