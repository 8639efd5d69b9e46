package main

import (
	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/billing/money"
)

var approvalPolicies = resource[api.ApprovalPolicyRequest, api.ApprovalPolicy]{
	use: "approval-policy", short: "Manage approval policies, which hold jobs for a person", one: "approval policy", many: "approval policies", arg: "POLICY",
	list: (*client.Client).ApprovalPolicies, get: (*client.Client).ApprovalPolicy, create: (*client.Client).CreateApprovalPolicy,
	put: (*client.Client).PutApprovalPolicy, remove: (*client.Client).DeleteApprovalPolicy,
	version: func(p *api.ApprovalPolicy) int64 { return p.Version },
	prefix:  "pol_", makes: "NAME",
	named: func(p api.ApprovalPolicy) (string, string) { return p.ID, p.Name },
	begin: func(req *api.ApprovalPolicyRequest, arg string) error {
		req.Name = arg
		return nil
	},
	flags: []edit[api.ApprovalPolicyRequest]{
		set("mode", "conditions that must hold: any (default) or all", words, func(r *api.ApprovalPolicyRequest) *string { return &r.Mode }),
		option("enabled", "whether the policy applies (default true)", yesNo, func(r *api.ApprovalPolicyRequest) **bool { return &r.Enabled }),
		set("queue", "condition: queue of the job", words, func(r *api.ApprovalPolicyRequest) *string { return &r.Queue }),
		set("tag-key", "condition: name of a tag of the job", words, func(r *api.ApprovalPolicyRequest) *string { return &r.TagKey }),
		set("tag-value", "condition: value of the tag --tag-key", words, func(r *api.ApprovalPolicyRequest) *string { return &r.TagValue }),
		option("cost-usd-gt", "condition: cost or estimate above this amount", dollars, func(r *api.ApprovalPolicyRequest) **money.Nano { return &r.CostUSDGt }),
		option("agent-iteration-gt", "condition: more finished iterations than this number", whole, func(r *api.ApprovalPolicyRequest) **int { return &r.AgentIterationGt }),
	},
	renames: []edit[api.ApprovalPolicyRequest]{
		set("name", "new name of the policy", words, func(r *api.ApprovalPolicyRequest) *string { return &r.Name }),
	},
	columns: []column[api.ApprovalPolicy]{
		{"NAME", func(p api.ApprovalPolicy) string { return p.Name }},
		{"ENABLED", func(p api.ApprovalPolicy) string { return yes(p.Enabled) }},
		{"MODE", func(p api.ApprovalPolicy) string { return p.Mode }},
		{"QUEUE", func(p api.ApprovalPolicy) string { return maybe(p.Queue, texts) }},
		{"TAG", func(p api.ApprovalPolicy) string {
			if p.TagKey == nil || p.TagValue == nil {
				return maybe(p.TagKey, texts)
			}
			return *p.TagKey + "=" + *p.TagValue
		}},
		{"COST USD >", func(p api.ApprovalPolicy) string { return maybe(p.CostUSDGt, usd) }},
		{"ITERATION >", func(p api.ApprovalPolicy) string { return maybe(p.AgentIterationGt, count) }},
		{"ID", func(p api.ApprovalPolicy) string { return p.ID }},
	},
	details: []column[api.ApprovalPolicy]{
		{"CREATED", func(p api.ApprovalPolicy) string { return clock(p.CreatedAt) }},
	},
}

func newApprovalPolicy() *cobra.Command { return approvalPolicies.command() }
