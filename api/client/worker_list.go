package client

import (
	"context"
	"net/http"

	"github.com/corvo/corvo/api"
)

// Workers lists the workers that the node has had a request from in the last two minutes, and those that
// hold jobs, sorted by id.
func (c *Client) Workers(ctx context.Context, r Read) ([]api.Worker, error) {
	var out []api.Worker
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/workers" + r.query(), out: &out, repeat: repeatAlways})
	return out, err
}
