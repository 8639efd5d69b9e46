// Package tenancy says who may do what where: namespaces, keys, roles,
// permissions and the one decision, Allow. It is pure: it stores nothing, reads
// no clock, checks no credential (tenancy/keyring does), and imports only api.
package tenancy
