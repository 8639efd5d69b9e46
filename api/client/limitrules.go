package client

import (
	"context"

	"github.com/corvo/corvo/api"
)

var limitRules = noun[api.LimitRuleRequest, api.LimitRule]{path: "/limit-rules", version: func(x *api.LimitRule) *int64 { return &x.Version }}

// LimitRules lists the limit rules of the queues the key may see, by id: those of keys, and those
// of whole queues, which are the queue's own settings.
func (c *Client) LimitRules(ctx context.Context, r Read) ([]api.LimitRule, error) {
	return limitRules.list(ctx, c, r)
}

// LimitRule is one limit rule, with its version. Its id is queue/key, or the queue's name.
func (c *Client) LimitRule(ctx context.Context, id string, r Read) (api.LimitRule, error) {
	return limitRules.get(ctx, c, r, id)
}

// CreateLimitRule makes a limit rule where there is none.
func (c *Client) CreateLimitRule(ctx context.Context, req api.LimitRuleRequest) (api.LimitRule, error) {
	return limitRules.create(ctx, c, req)
}

// PutLimitRule replaces a limit rule or makes it; its id is queue/key, or the queue's name. With
// a version other than 0 it must be there and still be at that: the version of a whole
// queue's rule is that of all the queue's settings.
func (c *Client) PutLimitRule(ctx context.Context, id string, req api.LimitRuleRequest, version int64) (api.LimitRule, error) {
	return limitRules.put(ctx, c, req, version, id)
}

// DeleteLimitRule lifts a limit rule, with a version other than 0 only if it is still at that.
func (c *Client) DeleteLimitRule(ctx context.Context, id string, version int64) error {
	return limitRules.delete(ctx, c, version, id)
}
