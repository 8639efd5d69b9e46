package client

import (
	"context"
	"net/http"
	"time"

	"github.com/corvo/corvo/api"
)

// adminWait is how long maintenance of a node may take on purpose.
const adminWait = 10 * time.Minute

// TakeSnapshot makes the node's state durable now and cuts its log.
func (c *Client) TakeSnapshot(ctx context.Context) (api.Status, error) {
	var out api.Status
	err := c.admin(ctx, "snapshot", &out)
	return out, err
}

// VerifyStore checks the node's store against itself.
func (c *Client) VerifyStore(ctx context.Context) (api.Verified, error) {
	var out api.Verified
	err := c.admin(ctx, "verify", &out)
	return out, err
}

// RebuildView builds the node's search view anew from its store.
func (c *Client) RebuildView(ctx context.Context) (api.Status, error) {
	var out api.Status
	err := c.admin(ctx, "rebuild-view", &out)
	return out, err
}

// admin asks for something that only the node at the endpoint does, and that may
// be asked again.
func (c *Client) admin(ctx context.Context, what string, out any) error {
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/api/v1/admin/" + what, out: out, repeat: repeatAlways, wait: adminWait})
	return err
}
