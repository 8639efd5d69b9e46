package client

import (
	"context"

	"github.com/corvo/corvo/api"
)

var roles = noun[api.RoleRequest, api.Role]{path: "/auth/roles", version: func(x *api.Role) *int64 { return &x.Version }}

// Roles lists the roles, built-in ones first.
func (c *Client) Roles(ctx context.Context, r Read) ([]api.Role, error) { return roles.list(ctx, c, r) }

// Role is one role, with its version.
func (c *Client) Role(ctx context.Context, name string, r Read) (api.Role, error) {
	return roles.get(ctx, c, r, name)
}

// CreateRole makes a role where there is none of its name.
func (c *Client) CreateRole(ctx context.Context, req api.RoleRequest) (api.Role, error) {
	return roles.create(ctx, c, req)
}

// PutRole replaces what a role grants, to all keys that have it, or makes it. With a
// version other than 0 it must be there and still be at that.
func (c *Client) PutRole(ctx context.Context, name string, req api.RoleRequest, version int64) (api.Role, error) {
	return roles.put(ctx, c, req, version, name)
}

// DeleteRole takes back a role that no key has, with a version other than 0 only if it is
// still at that.
func (c *Client) DeleteRole(ctx context.Context, name string, version int64) error {
	return roles.delete(ctx, c, version, name)
}
