package client

import (
	"context"
	"net/http"

	"github.com/corvo/corvo/api"
)

// Roles of a cloud namespace are kept by the control plane; those of a node are in roles.go.

// NamespaceRoles lists the roles of a namespace, built-in ones first.
func (c *Cloud) NamespaceRoles(ctx context.Context, ns string) ([]api.Role, error) {
	return all[api.Role](ctx, c.Client, cloudPath("namespaces", ns, "roles"), nil)
}

// NamespaceRole is one role of a namespace, with its version.
func (c *Cloud) NamespaceRole(ctx context.Context, ns, name string) (api.Role, error) {
	return c.roleOf(ctx, call{method: http.MethodGet, path: cloudPath("namespaces", ns, "roles", name), repeat: repeatAlways})
}

// CreateNamespaceRole makes a role where there is none of its name.
func (c *Cloud) CreateNamespaceRole(ctx context.Context, ns string, req api.RoleRequest) (api.Role, error) {
	return c.roleOf(ctx, call{method: http.MethodPost, path: cloudPath("namespaces", ns, "roles"), body: req, repeat: repeatKeyed})
}

// PutNamespaceRole replaces what a role grants, to all keys that have it, or makes it. With
// a version other than 0 it must be there and still be at that.
func (c *Cloud) PutNamespaceRole(ctx context.Context, ns, name string, req api.RoleRequest, version int64) (api.Role, error) {
	return c.roleOf(ctx, call{method: http.MethodPut, path: cloudPath("namespaces", ns, "roles", name), body: req, ifMatch: version, repeat: repeatKeyed})
}

// DeleteNamespaceRole takes back a role that no key has, with a version other than 0 only
// if it is still at that.
func (c *Cloud) DeleteNamespaceRole(ctx context.Context, ns, name string, version int64) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: cloudPath("namespaces", ns, "roles", name), ifMatch: version, repeat: repeatDeletion(version)})
	return err
}

// roleOf makes a call whose answer is a role with its version.
func (c *Cloud) roleOf(ctx context.Context, k call) (out api.Role, err error) {
	k.out, k.version = &out, &out.Version
	_, err = c.do(ctx, k)
	return out, err
}
