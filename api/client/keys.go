package client

import (
	"context"
	"net/http"

	"github.com/corvo/corvo/api"
)

// CreateKey makes an API key; the answer alone holds its secret. A create whose
// answer was lost is not repeated, because a repeat could not show the secret:
// list the keys, revoke the one made and create another.
func (c *Client) CreateKey(ctx context.Context, req api.CreateKeyRequest) (api.CreatedKey, error) {
	var out api.CreatedKey
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/api/v1/auth/keys", body: req, out: &out, repeat: repeatRefused})
	return out, err
}

// ListKeys lists the API keys, without their secrets.
func (c *Client) ListKeys(ctx context.Context) ([]api.Key, error) {
	var out []api.Key
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/auth/keys", out: &out, repeat: repeatAlways})
	return out, err
}

var keys = noun[api.SetKeyRequest, api.Key]{path: "/auth/keys", version: func(x *api.Key) *int64 { return &x.Version }}

// Key is one API key, without its secret.
func (c *Client) Key(ctx context.Context, id string) (api.Key, error) {
	return keys.get(ctx, c, Read{}, id)
}

// SetKey replaces what is said about an API key, but for its secret: with a version other
// than 0 only if it is still at that. It binds the key's open streams and waiting fetches,
// too.
func (c *Client) SetKey(ctx context.Context, id string, req api.SetKeyRequest, version int64) (api.Key, error) {
	return keys.put(ctx, c, req, version, id)
}

// RotateKey gives an API key another secret, which the answer alone holds. One whose
// answer was lost is not repeated, as CreateKey; rotate again, which leaves the secret
// from before the lost one to open nothing.
func (c *Client) RotateKey(ctx context.Context, id string, req api.RotateRequest) (api.CreatedKey, error) {
	var out api.CreatedKey
	_, err := c.do(ctx, call{method: http.MethodPost, path: keys.at([]string{id}) + "/rotate", body: req, out: &out, repeat: repeatRefused})
	return out, err
}

// RevokeKey deletes an API key; what it was used for ends at once. With a version other than
// 0 only if it is still at that.
func (c *Client) RevokeKey(ctx context.Context, id string, version int64) error {
	return keys.delete(ctx, c, version, id)
}
