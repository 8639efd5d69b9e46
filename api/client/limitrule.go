package client

import (
	"context"

	"github.com/corvo/corvo/api"
)

var limitRules = resource[api.LimitRuleRequest, api.LimitRule]{path: "/limit-rules", version: func(x *api.LimitRule) *int64 { return &x.Version }}

// LimitRules lists the limit rules of the queues that the key may see, sorted by id: rules of fairness
// keys, and rules of whole queues, which are part of the queue's settings.
func (c *Client) LimitRules(ctx context.Context, r Read) ([]api.LimitRule, error) {
	return limitRules.list(ctx, c, r)
}

// LimitRule returns one limit rule, with its version. Its id is queue/key, or the name of a queue.
func (c *Client) LimitRule(ctx context.Context, id string, r Read) (api.LimitRule, error) {
	return limitRules.get(ctx, c, r, id)
}

// CreateLimitRule creates a limit rule. The error is CONFLICT if it exists.
func (c *Client) CreateLimitRule(ctx context.Context, req api.LimitRuleRequest) (api.LimitRule, error) {
	return limitRules.create(ctx, c, req)
}

// PutLimitRule creates or replaces a limit rule. Its id is queue/key, or the name of a queue. If version is
// not 0 and no rule with that version exists, the error is PRECONDITION_FAILED. The version of a whole
// queue's rule is the version of the queue's settings.
func (c *Client) PutLimitRule(ctx context.Context, id string, req api.LimitRuleRequest, version int64) (api.LimitRule, error) {
	return limitRules.put(ctx, c, req, version, id)
}

// DeleteLimitRule deletes a limit rule. If version is not 0 and the present version differs, the error is
// PRECONDITION_FAILED.
func (c *Client) DeleteLimitRule(ctx context.Context, id string, version int64) error {
	return limitRules.delete(ctx, c, version, id)
}
