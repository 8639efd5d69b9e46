package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/corvo/corvo/api"
)

// changeWait is the time that a change of membership may take.
const changeWait = 30 * time.Second

// Health checks that the process works: on a node, that its stores and views answer. If not, the error is
// UNHEALTHY. It needs no key.
func (c *Client) Health(ctx context.Context) (api.Health, error) {
	var out api.Health
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/healthz", out: &out, repeat: repeatAlways})
	return out, err
}

// Ready checks that the node can serve requests. If not, the error is UNHEALTHY, or LEADER_UNAVAILABLE if
// only a leader is missing. It needs no key.
func (c *Client) Ready(ctx context.Context) (api.Health, error) {
	var out api.Health
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/readyz", out: &out, repeat: repeatAlways})
	return out, err
}

// Info returns the versions and capabilities of the server. It needs no key.
func (c *Client) Info(ctx context.Context) (api.Info, error) {
	var out api.Info
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/info", out: &out, repeat: repeatAlways})
	return out, err
}

// ClusterStatus returns the state of the cluster as the node knows it.
func (c *Client) ClusterStatus(ctx context.Context) (api.ClusterStatus, error) {
	var out api.ClusterStatus
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/cluster/status", out: &out, repeat: repeatAlways})
	return out, err
}

// AddNode invites a waiting node into the cluster and returns when the node has accepted. address is the
// host:port of the node's raft listener. The error is CONFLICT if the node is in another cluster. AddNode,
// TransferLeadership and RemoveNode get STATE_CONFLICT from a node that was started without a cluster
// listener.
func (c *Client) AddNode(ctx context.Context, address string) error {
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/api/v1/cluster/join", body: api.ClusterJoinRequest{Address: address}, repeat: repeatAlways})
	return err
}

// TransferLeadership transfers the leadership of all shards to a node. "" means any node other than the
// present leaders. The error is STATE_CONFLICT if the node has no vote, or if with "" no other node with a
// vote answers.
func (c *Client) TransferLeadership(ctx context.Context, to string) error {
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/api/v1/cluster/transfer", body: api.ClusterTransferRequest{To: to}, repeat: repeatRefused, wait: changeWait})
	return err
}

// RemoveNode removes a node from the cluster. The error is STATE_CONFLICT if the live nodes that remain would
// be no majority.
func (c *Client) RemoveNode(ctx context.Context, id string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: "/api/v1/cluster/servers/" + url.PathEscape(id), repeat: repeatAlways, wait: changeWait})
	return err
}
