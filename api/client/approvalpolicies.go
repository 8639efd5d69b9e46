package client

import (
	"context"

	"github.com/corvo/corvo/api"
)

var approvalPolicies = noun[api.ApprovalPolicyRequest, api.ApprovalPolicy]{path: "/approval-policies", version: func(x *api.ApprovalPolicy) *int64 { return &x.Version }}

// ApprovalPolicies lists the approval policies.
func (c *Client) ApprovalPolicies(ctx context.Context, r Read) ([]api.ApprovalPolicy, error) {
	return approvalPolicies.list(ctx, c, r)
}

// ApprovalPolicy is one approval policy, with its version.
func (c *Client) ApprovalPolicy(ctx context.Context, id string, r Read) (api.ApprovalPolicy, error) {
	return approvalPolicies.get(ctx, c, r, id)
}

// CreateApprovalPolicy makes an approval policy.
func (c *Client) CreateApprovalPolicy(ctx context.Context, req api.ApprovalPolicyRequest) (api.ApprovalPolicy, error) {
	return approvalPolicies.create(ctx, c, req)
}

// PutApprovalPolicy replaces an approval policy. With a version other than 0 only if it is
// still at that.
func (c *Client) PutApprovalPolicy(ctx context.Context, id string, req api.ApprovalPolicyRequest, version int64) (api.ApprovalPolicy, error) {
	return approvalPolicies.put(ctx, c, req, version, id)
}

// DeleteApprovalPolicy removes an approval policy, with a version other than 0 only if it is
// still at that. Jobs that it holds stay held.
func (c *Client) DeleteApprovalPolicy(ctx context.Context, id string, version int64) error {
	return approvalPolicies.delete(ctx, c, version, id)
}
