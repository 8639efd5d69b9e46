package server

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
)

// approvalPolicies say which jobs a person has to approve.
var approvalPolicies = noun[api.ApprovalPolicyRequest, api.ApprovalPolicy]{
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

// policyQueue is the queue that a policy is about: whatever else it asks for, its jobs
// are in that queue.
func policyQueue(r *state.Resource) string {
	p := r.GetApprovalPolicy()
	if p.GetAll() || p.GetTagKey() == "" && !p.GetCostSaid() && !p.GetIterationSaid() {
		return p.GetQueue()
	}
	return ""
}
