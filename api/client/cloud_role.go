package client

import (
	"context"
	"net/http"

	"github.com/corvo/corvo/api"
)

// The control plane stores the roles of its namespaces. For the roles of a node see role.go.

// NamespaceRoles lists the roles of a namespace, built-in ones first.
func (c *Cloud) NamespaceRoles(ctx context.Context, ns string) ([]api.Role, error) {
	return all[api.Role](ctx, c.Client, cloudPath("namespaces", ns, "roles"), nil)
}

// NamespaceRole returns one role of a namespace, with its version.
func (c *Cloud) NamespaceRole(ctx context.Context, ns, name string) (api.Role, error) {
	return c.roleOf(ctx, call{method: http.MethodGet, path: cloudPath("namespaces", ns, "roles", name), repeat: repeatAlways})
}

// CreateNamespaceRole creates a custom role. The error is CONFLICT if its name is taken, and STATE_CONFLICT
// while the namespace is being deleted.
func (c *Cloud) CreateNamespaceRole(ctx context.Context, ns string, req api.RoleRequest) (api.Role, error) {
	return c.roleOf(ctx, call{method: http.MethodPost, path: cloudPath("namespaces", ns, "roles"), body: req, repeat: repeatKeyed})
}

// PutNamespaceRole creates a custom role or replaces its permissions, for all keys with the role. The error
// is CONFLICT for a built-in role, and STATE_CONFLICT while the namespace is being deleted. If version is not
// 0 and no role with that version exists, the error is PRECONDITION_FAILED.
func (c *Cloud) PutNamespaceRole(ctx context.Context, ns, name string, req api.RoleRequest, version int64) (api.Role, error) {
	return c.roleOf(ctx, call{method: http.MethodPut, path: cloudPath("namespaces", ns, "roles", name), body: req, ifMatch: version, repeat: repeatKeyed})
}

// DeleteNamespaceRole deletes a custom role. The error is CONFLICT if a key has the role or the role is built
// in. If version is not 0 and the present version differs, the error is PRECONDITION_FAILED.
func (c *Cloud) DeleteNamespaceRole(ctx context.Context, ns, name string, version int64) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: cloudPath("namespaces", ns, "roles", name), ifMatch: version, repeat: repeatDeletion(version)})
	return err
}

// roleOf sends a call whose response is a role, and stores its version.
func (c *Cloud) roleOf(ctx context.Context, k call) (out api.Role, err error) {
	k.out, k.version = &out, &out.Version
	_, err = c.do(ctx, k)
	return out, err
}
