package client

import (
	"context"

	"github.com/corvo/corvo/api"
)

var alertRules = resource[api.AlertRuleRequest, api.AlertRule]{path: "/alerts", version: func(x *api.AlertRule) *int64 { return &x.Version }}

// AlertRules lists the alert rules, with their states.
func (c *Client) AlertRules(ctx context.Context, r Read) ([]api.AlertRule, error) {
	return alertRules.list(ctx, c, r)
}

// AlertRule returns one alert rule, with its version.
func (c *Client) AlertRule(ctx context.Context, id string, r Read) (api.AlertRule, error) {
	return alertRules.get(ctx, c, r, id)
}

// CreateAlertRule creates an alert rule. The error is VALIDATION_ERROR if the webhook in req.Notify does not
// exist.
func (c *Client) CreateAlertRule(ctx context.Context, req api.AlertRuleRequest) (api.AlertRule, error) {
	return alertRules.create(ctx, c, req)
}

// PutAlertRule replaces an alert rule. The error is NOT_FOUND if it does not exist, and VALIDATION_ERROR if
// the webhook in req.Notify does not. If version is not 0 and the present version differs, the error is
// PRECONDITION_FAILED.
func (c *Client) PutAlertRule(ctx context.Context, id string, req api.AlertRuleRequest, version int64) (api.AlertRule, error) {
	return alertRules.put(ctx, c, req, version, id)
}

// DeleteAlertRule deletes an alert rule. If version is not 0 and the present version differs, the error
// is PRECONDITION_FAILED.
func (c *Client) DeleteAlertRule(ctx context.Context, id string, version int64) error {
	return alertRules.delete(ctx, c, version, id)
}
