package client

import (
	"context"
	"net/http"

	"github.com/corvo/corvo/api"
)

// Settings returns the settings of the namespace.
func (c *Client) Settings(ctx context.Context, r Read) (api.Settings, error) {
	var out api.Settings
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/settings" + r.query(), out: &out, repeat: repeatAlways})
	return out, err
}

// PutSettings replaces all settings of the namespace. A zero field gets its default.
func (c *Client) PutSettings(ctx context.Context, s api.Settings) (api.Settings, error) {
	var out api.Settings
	_, err := c.do(ctx, call{method: http.MethodPut, path: "/api/v1/settings", body: s, out: &out, repeat: repeatAlways})
	return out, err
}
