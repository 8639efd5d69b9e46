package client

import (
	"context"
	"net/http"

	"github.com/corvo/corvo/api"
)

// CreateKey creates an API key. Only its response contains the secret. If the response is lost, the call is
// not retried, or, with WithIdempotencyKey, the retry gets CONFLICT. Then revoke the key, which ListKeys
// shows, and create another one.
//
// The first key closes an open node to requests without a key. It must have the role admin, every queue and
// no expiry, or the error is CONFLICT. If the response to that call is lost, nobody has a key.
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

var keys = resource[api.SetKeyRequest, api.Key]{path: "/auth/keys", version: func(x *api.Key) *int64 { return &x.Version }}

// Key returns one API key, without its secret.
func (c *Client) Key(ctx context.Context, id string) (api.Key, error) {
	return keys.get(ctx, c, Read{}, id)
}

// SetKey replaces the settings of an API key; its id and secret stay. The change also applies to the key's
// open streams and waiting fetches. The error is CONFLICT if no key could then administer the namespace. If
// version is not 0 and the present version differs, the error is PRECONDITION_FAILED.
func (c *Client) SetKey(ctx context.Context, id string, req api.SetKeyRequest, version int64) (api.Key, error) {
	return keys.put(ctx, c, req, version, id)
}

// RotateKey gives an API key a new secret, which only its response contains. The replaced secret stays valid
// for req.Overlap. If the response is lost, the call is not retried, or, with WithIdempotencyKey, the retry
// gets CONFLICT. Then rotate again, which ends the secret in use at once, because a key keeps only one
// replaced secret.
func (c *Client) RotateKey(ctx context.Context, id string, req api.RotateRequest) (api.CreatedKey, error) {
	var out api.CreatedKey
	_, err := c.do(ctx, call{method: http.MethodPost, path: keys.at([]string{id}) + "/rotate", body: req, out: &out, repeat: repeatRefused})
	return out, err
}

// RevokeKey deletes an API key. Its open streams and waiting fetches end at once. The error is CONFLICT if no
// other key could administer the namespace. If version is not 0 and the present version differs, the error is
// PRECONDITION_FAILED.
func (c *Client) RevokeKey(ctx context.Context, id string, version int64) error {
	return keys.delete(ctx, c, version, id)
}
