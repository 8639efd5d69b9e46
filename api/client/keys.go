package client

import (
	"context"
	"net/http"
	"net/url"

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

// Key is one API key, without its secret.
func (c *Client) Key(ctx context.Context, id string) (api.Key, error) {
	var out api.Key
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/auth/keys/" + url.PathEscape(id), out: &out, repeat: repeatAlways})
	return out, err
}

// RevokeKey deletes an API key; what it was used for ends at once.
func (c *Client) RevokeKey(ctx context.Context, id string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: "/api/v1/auth/keys/" + url.PathEscape(id), repeat: repeatKeyed})
	return err
}
