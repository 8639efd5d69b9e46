package client

import (
	"context"

	"github.com/corvo/corvo/api"
)

var approvalPolicies = resource[api.ApprovalPolicyRequest, api.ApprovalPolicy]{path: "/approval-policies", version: func(x *api.ApprovalPolicy) *int64 { return &x.Version }}

// ApprovalPolicies lists the approval policies.
func (c *Client) ApprovalPolicies(ctx context.Context, r Read) ([]api.ApprovalPolicy, error) {
	return approvalPolicies.list(ctx, c, r)
}

// ApprovalPolicy returns one approval policy, with its version.
func (c *Client) ApprovalPolicy(ctx context.Context, id string, r Read) (api.ApprovalPolicy, error) {
	return approvalPolicies.get(ctx, c, r, id)
}

// CreateApprovalPolicy creates an approval policy. The error is CONFLICT if another has its name.
func (c *Client) CreateApprovalPolicy(ctx context.Context, req api.ApprovalPolicyRequest) (api.ApprovalPolicy, error) {
	return approvalPolicies.create(ctx, c, req)
}

// PutApprovalPolicy replaces an approval policy. The error is NOT_FOUND if it does not exist, and CONFLICT if
// another has its new name. If version is not 0 and the present version differs, the error is
// PRECONDITION_FAILED.
func (c *Client) PutApprovalPolicy(ctx context.Context, id string, req api.ApprovalPolicyRequest, version int64) (api.ApprovalPolicy, error) {
	return approvalPolicies.put(ctx, c, req, version, id)
}

// DeleteApprovalPolicy deletes an approval policy. Jobs that it holds stay held. If version is not 0 and
// the present version differs, the error is PRECONDITION_FAILED.
func (c *Client) DeleteApprovalPolicy(ctx context.Context, id string, version int64) error {
	return approvalPolicies.delete(ctx, c, version, id)
}
