// Package tenancy decides whether a principal may perform an action: it defines namespaces, keys, roles
// and permissions, and Allow takes the decision. The package is pure: it stores nothing, reads no clock,
// checks no credential (tenancy/keyring does), and imports only api.
package tenancy
