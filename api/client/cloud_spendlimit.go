package client

import (
	"context"
	"net/http"

	"github.com/corvo/corvo/api"
)

// SpendLimit returns the spend limit of an organisation, with the spend of the running month.
func (c *Cloud) SpendLimit(ctx context.Context, org string) (api.SpendLimit, error) {
	return get[api.SpendLimit](ctx, c.Client, cloudPath("orgs", org, "spend-limit"))
}

// SetSpendLimit sets the spend limit of an organisation.
func (c *Cloud) SetSpendLimit(ctx context.Context, org string, req api.SetSpendLimitRequest) (api.SpendLimit, error) {
	return send[api.SpendLimit](ctx, c.Client, call{method: http.MethodPut, path: cloudPath("orgs", org, "spend-limit"), body: req, repeat: repeatAlways})
}

// ClearSpendLimit removes the spend limit of an organisation. It does nothing if there is none.
func (c *Cloud) ClearSpendLimit(ctx context.Context, org string) (api.SpendLimit, error) {
	return send[api.SpendLimit](ctx, c.Client, call{method: http.MethodDelete, path: cloudPath("orgs", org, "spend-limit"), repeat: repeatAlways})
}

// RaiseSpendLimit raises the spend limit of an organisation until a time. The error is STATE_CONFLICT without a limit, and
// FORBIDDEN if only an operator of the cloud may raise it by so much.
func (c *Cloud) RaiseSpendLimit(ctx context.Context, org string, req api.RaiseSpendLimitRequest) (api.SpendLimit, error) {
	return send[api.SpendLimit](ctx, c.Client, call{method: http.MethodPost, path: cloudPath("orgs", org, "spend-limit", "raise"), body: req, repeat: repeatKeyed})
}
