package client

import (
	"context"
	"net/http"

	"github.com/corvo/corvo/api"
)

// Workers lists the workers that sent the node a request in the last two minutes, and the workers that hold
// jobs, fetched from any node. The list is sorted by id and shows only the queues that the key may see.
func (c *Client) Workers(ctx context.Context, r Read) ([]api.Worker, error) {
	var out []api.Worker
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/workers" + r.query(), out: &out, repeat: repeatAlways})
	return out, err
}
