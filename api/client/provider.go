package client

import (
	"context"

	"github.com/corvo/corvo/api"
)

var providers = resource[api.ProviderRequest, api.Provider]{path: "/providers", version: func(x *api.Provider) *int64 { return &x.Version }}

// Providers lists the providers of models, sorted by name, with their use.
func (c *Client) Providers(ctx context.Context, r Read) ([]api.Provider, error) {
	return providers.list(ctx, c, r)
}

// Provider returns one provider, with its version.
func (c *Client) Provider(ctx context.Context, name string, r Read) (api.Provider, error) {
	return providers.get(ctx, c, r, name)
}

// CreateProvider creates a provider. The error is CONFLICT if its name is taken.
func (c *Client) CreateProvider(ctx context.Context, req api.ProviderRequest) (api.Provider, error) {
	return providers.create(ctx, c, req)
}

// PutProvider creates or replaces a provider. If version is not 0 and no provider with that version exists,
// the error is PRECONDITION_FAILED.
func (c *Client) PutProvider(ctx context.Context, name string, req api.ProviderRequest, version int64) (api.Provider, error) {
	return providers.put(ctx, c, req, version, name)
}

// DeleteProvider deletes a provider, so that its limits no longer apply. If version is not 0 and the
// present version differs, the error is PRECONDITION_FAILED.
func (c *Client) DeleteProvider(ctx context.Context, name string, version int64) error {
	return providers.delete(ctx, c, version, name)
}
