package view

import (
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/job"
)

// documentHold fills in the person or the gate that a job waits for.
func documentHold(doc *api.Job, j *job.Job) {
	d := j.Detail
	doc.HoldReason = optional(d.GetHoldReason())
	if j.State == job.Held {
		doc.Hold = &api.JobHold{By: d.GetHold().Word(), Name: optional(d.GetHoldBy())}
	}
	if gate := d.GetGate(); j.State == job.Pending && gate != job.Gate_GATE_NONE {
		doc.WaitingFor = optional(gateWord(gate) + ":" + d.GateName)
	}
}

func gateWord(g job.Gate) string {
	switch g {
	case job.Gate_GATE_PROVIDER:
		return "provider"
	case job.Gate_GATE_BUDGET:
		return "budget"
	}
	return fmt.Sprintf("gate(%d)", int32(g))
}

// documentAgent fills in the progress of a job that runs in iterations.
func documentAgent(doc *api.Job, j *job.Job) {
	agent := j.Options.GetAgent()
	if agent == nil {
		return
	}
	doc.Agent = &api.JobAgent{
		MaxIterations: positive(agent.MaxIterations),
		MaxCostUSD:    positiveCost(agent.MaxCostNanoUsd),
		Iteration:     int(j.Detail.GetIteration()),
		TotalCostUSD:  money.Nano(j.AgentCost()),
	}
	if timeout := timeout(agent); timeout != "" {
		doc.Agent.IterationTimeout = &timeout
	}
}
