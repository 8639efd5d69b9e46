package client

import (
	"context"
	"net/http"

	"github.com/corvo/corvo/api"
)

// Workers lists the workers of which the node has had a request in the last two minutes, and those that hold
// jobs fetched from any node, sorted by id. It shows only the queues that the key may see.
func (c *Client) Workers(ctx context.Context, r Read) ([]api.Worker, error) {
	var out []api.Worker
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/workers" + r.query(), out: &out, repeat: repeatAlways})
	return out, err
}
