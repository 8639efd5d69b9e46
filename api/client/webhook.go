package client

import (
	"context"
	"net/http"

	"github.com/corvo/corvo/api"
)

var webhooks = resource[api.WebhookRequest, api.Webhook]{path: "/webhooks", version: func(x *api.Webhook) *int64 { return &x.Version }}

// Webhooks lists the webhooks, without their secrets.
func (c *Client) Webhooks(ctx context.Context, r Read) ([]api.Webhook, error) {
	return webhooks.list(ctx, c, r)
}

// Webhook returns one webhook, with its version.
func (c *Client) Webhook(ctx context.Context, id string, r Read) (api.Webhook, error) {
	return webhooks.get(ctx, c, r, id)
}

// CreateWebhook creates a webhook.
func (c *Client) CreateWebhook(ctx context.Context, req api.WebhookRequest) (api.Webhook, error) {
	return webhooks.create(ctx, c, req)
}

// PutWebhook replaces a webhook. The error is NOT_FOUND if it does not exist. Without a secret in the request
// the present one stays. If version is not 0 and the present version differs, the error is
// PRECONDITION_FAILED.
func (c *Client) PutWebhook(ctx context.Context, id string, req api.WebhookRequest, version int64) (api.Webhook, error) {
	return webhooks.put(ctx, c, req, version, id)
}

// DeleteWebhook deletes a webhook; its pending deliveries are given up. The error is CONFLICT while an alert
// rule notifies the webhook. If version is not 0 and the present version differs, the error is
// PRECONDITION_FAILED.
func (c *Client) DeleteWebhook(ctx context.Context, id string, version int64) error {
	return webhooks.delete(ctx, c, version, id)
}

// TestWebhook queues a test event for a webhook, whatever events the webhook selects, and returns the id of
// its delivery. The error is CONFLICT if the webhook is disabled or too many deliveries wait.
func (c *Client) TestWebhook(ctx context.Context, id string) (api.WebhookTest, error) {
	var out api.WebhookTest
	_, err := c.do(ctx, call{method: http.MethodPost, path: webhooks.at([]string{id, "test"}), out: &out, repeat: repeatKeyed})
	return out, err
}

// Deliveries lists the latest hundred deliveries of a webhook, the newest first. The error is FORBIDDEN for a
// key with a queue scope.
func (c *Client) Deliveries(ctx context.Context, id string, r Read) ([]api.Delivery, error) {
	var out []api.Delivery
	_, err := c.do(ctx, call{method: http.MethodGet, path: webhooks.at([]string{id, "deliveries"}) + r.query(), out: &out, repeat: repeatAlways})
	return out, err
}
