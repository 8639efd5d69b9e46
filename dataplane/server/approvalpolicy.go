package server

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
)

// approvalPolicies declares the resource for approval policies, which say which jobs a person must approve.
var approvalPolicies = resource[api.ApprovalPolicyRequest, api.ApprovalPolicy]{
	kind: state.ResourceKind_RESOURCE_KIND_APPROVAL_POLICY,
	path: "/approval-policies", item: "/{id}", one: "approval policy", many: "approval policies",
	read: tenancy.QueueRead, write: tenancy.QueueManage,
	prefix: "pol_",
	named:  inPath,
	from:   convert.FromApprovalPolicy,
	to: func(_ *cell.Cell, r *state.Resource) (api.ApprovalPolicy, error) {
		return convert.ToApprovalPolicy(r), nil
	},
	queue: policyQueue,
}

// policyQueue returns the queue of a policy that selects jobs of that queue only. It returns "" for a policy
// without a queue, and for a policy of mode any with further conditions, because such a policy also selects
// jobs of other queues.
func policyQueue(r *state.Resource) string {
	p := r.GetApprovalPolicy()
	if p.GetAll() || p.GetTagKey() == "" && !p.GetCostSaid() && !p.GetIterationSaid() {
		return p.GetQueue()
	}
	return ""
}
