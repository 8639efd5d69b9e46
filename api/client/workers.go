package client

import (
	"context"
	"net/http"

	"github.com/corvo/corvo/api"
)

// Workers lists those the node has heard of in the last two minutes, and those that
// hold jobs, by id.
func (c *Client) Workers(ctx context.Context, r Read) ([]api.Worker, error) {
	var out []api.Worker
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/workers" + r.query(), out: &out, repeat: repeatAlways})
	return out, err
}
