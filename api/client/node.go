package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/corvo/corvo/api"
)

// changeWait is how long a change of membership may take on purpose.
const changeWait = 30 * time.Second

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

// AddNode has a node join the cluster that waits for it; its raft listener is at
// the address.
func (c *Client) AddNode(ctx context.Context, address string) error {
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/api/v1/cluster/join", body: api.ClusterJoinRequest{Address: address}, repeat: repeatAlways})
	return err
}

// TransferLeadership hands the leadership of all shards to a node; "" = away from
// those who have it.
func (c *Client) TransferLeadership(ctx context.Context, to string) error {
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/api/v1/cluster/transfer", body: api.ClusterTransferRequest{To: to}, repeat: repeatRefused, wait: changeWait})
	return err
}

// RemoveNode ends a node's membership of the cluster. It may be repeated.
func (c *Client) RemoveNode(ctx context.Context, id string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: "/api/v1/cluster/servers/" + url.PathEscape(id), repeat: repeatAlways, wait: changeWait})
	return err
}
