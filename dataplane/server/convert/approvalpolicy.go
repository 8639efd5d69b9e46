package convert

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/optable"
)

// FromApprovalPolicy converts an approval policy and fills in defaults: the policy is enabled, and any one of
// its conditions selects a job. It refuses a policy without a condition, because such a policy would hold
// every job.
func FromApprovalPolicy(f *Faults, r *api.ApprovalPolicyRequest, _ *state.Resource, _ int64) *op.PutResource {
	p := &state.ApprovalPolicy{
		Label:    r.Name,
		All:      r.Mode == api.ModeAll,
		Disabled: r.Enabled != nil && !*r.Enabled,
		Queue:    r.Queue,
		TagKey:   r.TagKey,
		TagValue: r.TagValue,
	}
	if r.Name == "" {
		f.Invalid("name", "is missing: give a name, which held jobs show")
	} else if err := job.CheckText(r.Name, job.MaxLabel); err != nil {
		f.Invalid("name", "%v", err)
	}
	if r.Mode != "" && r.Mode != api.ModeAny && r.Mode != api.ModeAll {
		f.Invalid("mode", "%s is not a mode: use any or all", text.Quote(r.Mode))
	}
	if r.Queue != "" {
		if err := job.CheckQueueName(r.Queue); err != nil {
			f.Invalid("queue", "%v", err)
		}
	}
	if err := job.CheckText(r.TagKey, job.MaxTagName); err != nil {
		f.Invalid("tag_key", "%v", err)
	}
	if err := job.CheckText(r.TagValue, job.MaxTagValue); err != nil {
		f.Invalid("tag_value", "%v", err)
	}
	if r.TagValue != "" && r.TagKey == "" {
		f.Invalid("tag_value", "goes with tag_key, which is missing")
	}
	if r.CostUSDGt != nil {
		p.CostSaid, p.CostNanoUsdOver = true, nanoUSD(f, "cost_usd_gt", *r.CostUSDGt)
	}
	if n := r.AgentIterationGt; n != nil {
		p.IterationSaid, p.IterationOver = true, valueOf(within(f, "agent_iteration_gt", *n, 0, job.MaxIterations))
	}
	if r.Queue == "" && r.TagKey == "" && !p.CostSaid && !p.IterationSaid {
		f.Invalid("queue", "is missing, and so are tag_key, cost_usd_gt and agent_iteration_gt: without a condition every job would be held")
	}
	return &op.PutResource{Resource: &state.Resource{ApprovalPolicy: p}}
}

// ToApprovalPolicy converts an approval policy to its API form.
func ToApprovalPolicy(r *state.Resource) api.ApprovalPolicy {
	p := r.GetApprovalPolicy()
	out := api.ApprovalPolicy{
		ID: r.Name, Name: p.GetLabel(), Mode: api.ModeAny, Enabled: !p.GetDisabled(),
		Queue: said(p.GetQueue()), TagKey: said(p.GetTagKey()), TagValue: said(p.GetTagValue()), CreatedAt: timeOf(r.CreatedNs),
	}
	if p.GetAll() {
		out.Mode = api.ModeAll
	}
	if p.GetCostSaid() {
		cost := money.Nano(p.GetCostNanoUsdOver())
		out.CostUSDGt = &cost
	}
	if p.GetIterationSaid() {
		n := int(p.GetIterationOver())
		out.AgentIterationGt = &n
	}
	return out
}

// FromApprove converts the changes that a person makes to a held job when approving it. It returns nil if
// there are none. It refuses a limit of 0, because an approval cannot lift a limit; a limit that is left out
// keeps its value.
func FromApprove(f *Faults, r *api.ApproveRequest, maxPayload int) *op.Changes {
	c := &op.Changes{
		Payload:    blob(f, "payload", r.Payload, maxPayload),
		Checkpoint: blob(f, "checkpoint", r.Checkpoint, job.MaxCheckpoint),
	}
	if a := r.Agent; a != nil {
		agent := &job.AgentConfig{}
		if a.MaxIterations != nil {
			agent.MaxIterations = valueOf(within(f, "agent.max_iterations", *a.MaxIterations, 1, job.MaxIterations))
		}
		if a.MaxCostUSD != nil {
			if agent.MaxCostNanoUsd = nanoUSD(f, "agent.max_cost_usd", *a.MaxCostUSD); *a.MaxCostUSD == 0 {
				f.Invalid("agent.max_cost_usd", "is 0: leave it out to keep the present value")
			}
		}
		if a.IterationTimeout != "" {
			if agent.IterationTimeoutMs = millis(f, "agent.iteration_timeout", a.IterationTimeout, 0, job.MaxIterationTime); agent.IterationTimeoutMs < 1 {
				f.Invalid("agent.iteration_timeout", "is less than a millisecond: leave it out to keep the present value")
			}
		}
		if agent.SizeVT() > 0 {
			c.Agent = agent
		}
	}
	if optable.Size(c) == 0 {
		return nil
	}
	return c
}

// nanoUSD converts an amount of money. It refuses an amount below 0 or above job.MaxMoney and then returns 0.
func nanoUSD(f *Faults, field string, n money.Nano) int64 {
	if n < 0 || n > money.Nano(job.MaxMoney) {
		f.Invalid(field, "is %s; it must be from 0 to %s US dollars", n, money.Nano(job.MaxMoney))
		return 0
	}
	return int64(n)
}

// said returns nil for an empty string, because the API shows an absent value as null.
func said(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
