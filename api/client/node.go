package client

import (
	"context"
	"net/http"

	"github.com/corvo/corvo/api"
)

// Health asks whether the process lives; it needs no key.
func (c *Client) Health(ctx context.Context) (api.Health, error) {
	var out api.Health
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/healthz", out: &out, repeat: repeatAlways})
	return out, err
}

// Ready asks whether the node can serve; it needs no key.
func (c *Client) Ready(ctx context.Context) (api.Health, error) {
	var out api.Health
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/readyz", out: &out, repeat: repeatAlways})
	return out, err
}

// Info says what the server is and can do; it needs no key.
func (c *Client) Info(ctx context.Context) (api.Info, error) {
	var out api.Info
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/info", out: &out, repeat: repeatAlways})
	return out, err
}

// ClusterStatus is what the node knows of its cluster.
func (c *Client) ClusterStatus(ctx context.Context) (api.ClusterStatus, error) {
	var out api.ClusterStatus
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/cluster/status", out: &out, repeat: repeatAlways})
	return out, err
}
