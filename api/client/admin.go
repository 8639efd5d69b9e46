package client

import (
	"context"
	"net/http"
	"time"

	"github.com/corvo/corvo/api"
)

// adminWait is the time that maintenance of a node may take.
const adminWait = 10 * time.Minute

// TakeSnapshot makes the node write a snapshot of its state and truncate its log.
func (c *Client) TakeSnapshot(ctx context.Context) (api.Status, error) {
	var out api.Status
	err := c.admin(ctx, "snapshot", &out)
	return out, err
}

// VerifyStore makes the node check the consistency of its stores. The error is UNHEALTHY if one is damaged or
// unreadable.
func (c *Client) VerifyStore(ctx context.Context) (api.Verified, error) {
	var out api.Verified
	err := c.admin(ctx, "verify", &out)
	return out, err
}

// RebuildView makes the node rebuild its search view from its state.
func (c *Client) RebuildView(ctx context.Context) (api.Status, error) {
	var out api.Status
	err := c.admin(ctx, "rebuild-view", &out)
	return out, err
}

// admin calls a maintenance route, which acts only on the node at the endpoint and may be repeated.
func (c *Client) admin(ctx context.Context, what string, out any) error {
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/api/v1/admin/" + what, out: out, repeat: repeatAlways, wait: adminWait})
	return err
}
