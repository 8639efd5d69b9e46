package client

import (
	"context"

	"github.com/corvo/corvo/api"
)

var roles = resource[api.RoleRequest, api.Role]{path: "/auth/roles", version: func(x *api.Role) *int64 { return &x.Version }}

// Roles lists the roles, built-in ones first.
func (c *Client) Roles(ctx context.Context, r Read) ([]api.Role, error) { return roles.list(ctx, c, r) }

// Role returns one role, with its version.
func (c *Client) Role(ctx context.Context, name string, r Read) (api.Role, error) {
	return roles.get(ctx, c, r, name)
}

// CreateRole creates a custom role. The error is CONFLICT if its name is taken.
func (c *Client) CreateRole(ctx context.Context, req api.RoleRequest) (api.Role, error) {
	return roles.create(ctx, c, req)
}

// PutRole creates a custom role or replaces its permissions, for all keys with the role. The error is
// CONFLICT for a built-in role. If version is not 0 and no role with that version exists, the error is
// PRECONDITION_FAILED.
func (c *Client) PutRole(ctx context.Context, name string, req api.RoleRequest, version int64) (api.Role, error) {
	return roles.put(ctx, c, req, version, name)
}

// DeleteRole deletes a custom role. The error is CONFLICT if a key has the role or the role is built in. If
// version is not 0 and the present version differs, the error is PRECONDITION_FAILED.
func (c *Client) DeleteRole(ctx context.Context, name string, version int64) error {
	return roles.delete(ctx, c, version, name)
}
