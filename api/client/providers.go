package client

import (
	"context"

	"github.com/corvo/corvo/api"
)

var providers = noun[api.ProviderRequest, api.Provider]{path: "/providers", version: func(x *api.Provider) *int64 { return &x.Version }}

// Providers lists the providers of models, by name, with what has gone to each.
func (c *Client) Providers(ctx context.Context, r Read) ([]api.Provider, error) {
	return providers.list(ctx, c, r)
}

// Provider is one provider, with its version.
func (c *Client) Provider(ctx context.Context, name string, r Read) (api.Provider, error) {
	return providers.get(ctx, c, r, name)
}

// CreateProvider declares a provider where there is none of its name.
func (c *Client) CreateProvider(ctx context.Context, req api.ProviderRequest) (api.Provider, error) {
	return providers.create(ctx, c, req)
}

// PutProvider replaces a provider or makes it. With a version other than 0 it must be there
// and still be at that.
func (c *Client) PutProvider(ctx context.Context, name string, req api.ProviderRequest, version int64) (api.Provider, error) {
	return providers.put(ctx, c, req, version, name)
}

// DeleteProvider takes a provider back, with a version other than 0 only if it is still at that:
// nothing limits its jobs then.
func (c *Client) DeleteProvider(ctx context.Context, name string, version int64) error {
	return providers.delete(ctx, c, version, name)
}
