package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

const credentialColumns = "id, kind, owner, name, roles, queue_scope, hash, created_ns, expires_ns, enabled, version"

const selectCredential = "SELECT " + credentialColumns + " FROM credentials"

func scanCredential(rows *sql.Rows) (c fleet.Credential, err error) {
	var roles, scope string
	var hash []byte
	var created, expires int64
	if err := rows.Scan(&c.ID, &c.Kind, &c.Owner, &c.Name, &roles, &scope, &hash, &created, &expires, &c.Enabled, &c.Version); err != nil {
		return c, err
	}
	if len(hash) != len(c.Hash) {
		return c, fmt.Errorf("the hash of credential %s has %d bytes", c.ID, len(hash))
	}
	c.Hash = [sha256.Size]byte(hash)
	for _, role := range strings.Fields(roles) {
		c.Roles = append(c.Roles, tenancy.Role(role))
	}
	for _, glob := range strings.Fields(scope) {
		c.QueueScope = append(c.QueueScope, tenancy.Glob(glob))
	}
	c.CreatedAt, c.ExpiresAt = instant(created), instant(expires)
	return c, nil
}

// instant converts a time of the state; 0 is the zero time.
func instant(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// endNs converts an expiry to Unix nanoseconds; the zero time is 0.
func endNs(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// check adds the faults of a new credential to p.
func (c *Credential) check(p *problems, field string) {
	if c == nil {
		p.add(field, errors.New("is missing"))
		return
	}
	p.add(field+".id", checkID(c.Id))
	p.add(field+".name", checkText(c.Name, tenancy.MaxKeyName))
	p.add(field+".hash", checkSize(c.Hash, sha256.Size))
	p.add(field+".expires_ns", checkNotNegative(c.ExpiresNs))
	kind := keyring.Kind(c.Kind)
	switch kind {
	case keyring.CloudOperator:
		if c.Owner != "" {
			p.add(field+".owner", errors.New("is set; an operator's key has none"))
		}
	case keyring.Namespace, keyring.Org, keyring.Host, keyring.Gateway:
		p.add(field+".owner", checkID(c.Owner))
	default:
		p.add(field+".kind", fmt.Errorf("is %q, which is not a kind of credential", c.Kind))
	}
	c.checkRoles(p, field, kind)
	if n := len(c.QueueScope); n > tenancy.MaxQueueScope {
		p.add(field+".queue_scope", fmt.Errorf("has %d entries: at most %d", n, tenancy.MaxQueueScope))
		return
	}
	for i, glob := range c.QueueScope {
		_, err := tenancy.ParseGlob(glob)
		p.add(fmt.Sprintf("%s.queue_scope[%d]", field, i), err)
	}
}

// checkRoles checks the number of roles; hosts and gateways need none. It refuses roles of the cloud for
// tenants' keys, and tenants' roles for operators, hosts and gateways. checkKeyRoles checks custom roles,
// because only the state knows the roles of a namespace.
func (c *Credential) checkRoles(p *problems, field string, kind keyring.Kind) {
	n := len(c.Roles)
	fleetMember := kind == keyring.Host || kind == keyring.Gateway
	if n > MaxRoles || n == 0 && !fleetMember {
		p.add(field+".roles", fmt.Errorf("has %d entries: it takes 1 to %d", n, MaxRoles))
		return
	}
	allowed := tenancy.Roles()
	switch {
	case fleetMember || kind == keyring.CloudOperator:
		allowed = tenancy.CloudRoles()
	case kind == keyring.Org:
		allowed = append(allowed, tenancy.TokenRoles()...)
	}
	for i, role := range c.Roles {
		custom := kind == keyring.Namespace && tenancy.CheckRoleName(role) == nil
		if !custom && !slices.Contains(allowed, tenancy.Role(role)) {
			p.add(fmt.Sprintf("%s.roles[%d]", field, i), fmt.Errorf("is %q: a credential of this kind takes %v", role, allowed))
		}
	}
}

// addCredential adds a credential and renews the documents that show it. It refuses an expiry that is over,
// roles that checkKeyRoles refuses, and a credential above the limit. lifetimeNs is the lifetime that a
// rotation passes on to the successor; if it is 0, addCredential computes it from the credential's expiry.
func (tx *Tx) addCredential(c *Credential, lifetimeNs int64) error {
	if c.ExpiresNs != 0 && c.ExpiresNs <= tx.clockNs() {
		return api.Errorf(api.ValidationError, "the credential would end before it begins: choose a later expires_at")
	}
	if lifetimeNs == 0 && c.ExpiresNs != 0 {
		lifetimeNs = c.ExpiresNs - tx.clockNs()
	}
	if err := tx.checkKeyRoles(keyring.Kind(c.Kind), c.Owner, c.Roles); err != nil {
		return err
	}
	if err := tx.evictExpired(c.Owner); err != nil {
		return err
	}
	err := tx.put("INSERT INTO credentials ("+credentialColumns+", lifetime_ns) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 1, 1, ?)",
		c.Id, c.Kind, c.Owner, c.Name, strings.Join(c.Roles, " "), strings.Join(c.QueueScope, " "), c.Hash, tx.clockNs(), c.ExpiresNs, lifetimeNs)
	if err != nil {
		return err
	}
	if err := tx.showCredential(c.Id); err != nil {
		return err
	}
	return tx.touchOwner(keyring.Kind(c.Kind), c.Owner)
}

// evictExpired makes room for one more credential of an owner that has the maximum: it removes the owner's
// expired ones, and refuses with CONFLICT if there are none.
func (tx *Tx) evictExpired(owner string) error {
	const count = "SELECT COUNT(*) FROM credentials WHERE owner = ?"
	n, err := number(tx, count, owner)
	if err != nil || n < tx.limits.keys {
		return err
	}
	over, err := list(tx, scalar[string], "SELECT id FROM credentials WHERE owner = ? AND expires_ns > 0 AND expires_ns <= ? ORDER BY id", owner, tx.clockNs())
	if err != nil {
		return err
	}
	for _, id := range over {
		if err := tx.dropCredential(id); err != nil {
			return err
		}
	}
	if n-int64(len(over)) >= tx.limits.keys {
		return api.Errorf(api.Conflict, "the maximum number of credentials exists (%d): revoke one first", tx.limits.keys)
	}
	return nil
}

// credential finds a credential by id; nil = not found.
func (tx *Tx) credential(id string) (*fleet.Credential, error) {
	c, found, err := first(tx, scanCredential, selectCredential+" WHERE id = ?", id)
	if err != nil || !found {
		return nil, err
	}
	return &c, nil
}

// sameCredential returns the existing credential with this id if ensure is set, the hash is the same and the
// credential has not expired: the op is then a repeat. It returns nil if no credential has or had the id. In
// every other case it refuses the id with CONFLICT; a repeat with an expired credential too, because the
// caller would take it for valid. ended_credentials holds the ids of the credentials that dropCredential has
// removed.
func (tx *Tx) sameCredential(id string, hash []byte, ensure bool) (*fleet.Credential, error) {
	old, err := tx.credential(id)
	if err != nil {
		return nil, err
	}
	if old != nil {
		switch {
		case old.Expired(instant(tx.clockNs())):
			return nil, api.Errorf(api.Conflict, "credential %q has expired: create another", id)
		case ensure && bytes.Equal(old.Hash[:], hash):
			return old, nil
		}
		return nil, api.Errorf(api.Conflict, "there is a credential %q already: choose another id", id)
	}
	ended, err := number(tx, "SELECT COUNT(*) FROM ended_credentials WHERE id = ?", id)
	if err == nil && ended > 0 {
		err = api.Errorf(api.Conflict, "credential %q was revoked or has expired: create another", id)
	}
	return nil, err
}

// showCredential adds a written credential to the changes that publish makes to the machine's memory after
// the commit.
func (tx *Tx) showCredential(id string) error {
	c, err := tx.credential(id)
	if err == nil && c == nil {
		err = fmt.Errorf("credential %s was written and is not there", id)
	}
	if err != nil {
		return err
	}
	tx.changes = append(tx.changes, credentialChange{id: id, now: c})
	return nil
}

// dropCredential removes a credential for ever. If the credential is still valid, the caller renews the
// documents.
func (tx *Tx) dropCredential(id string) error {
	tx.changes = append(tx.changes, credentialChange{id: id})
	if err := tx.put("INSERT INTO ended_credentials (id, ended_ns) VALUES (?, ?)", id, tx.clockNs()); err != nil {
		return err
	}
	return tx.put("DELETE FROM credentials WHERE id = ?", id)
}

// orgOf returns the organisation of a credential; "" = the cloud itself.
func (tx *Tx) orgOf(kind keyring.Kind, owner string) (tenancy.OrgID, error) {
	switch kind {
	case keyring.Org:
		return tenancy.OrgID(owner), nil
	case keyring.Namespace:
		n, err := tx.namespace(owner)
		return n.Org, err
	}
	return "", nil
}

// Credential finds a credential of any kind by id. It reads from memory, because the authentication of every
// request calls it. It also returns a credential that is disabled, or has expired and is not removed yet: the
// caller checks Enabled and ExpiresAt. The caller must not change the slices.
func (s *Store) Credential(id string) (fleet.Credential, bool) { return s.machine.credential(id) }

// Credentials lists an owner's credentials in the order of creation.
func (s *Store) Credentials(ctx context.Context, owner string) ([]fleet.Credential, error) {
	return read(ctx, s, func(r reader) ([]fleet.Credential, error) {
		return list(r, scanCredential, selectCredential+" WHERE owner = ? ORDER BY created_ns, id", owner)
	})
}
