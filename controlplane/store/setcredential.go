package store

import (
	"fmt"
	"slices"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// SetCredential replaces the settings of an API key or a cloud token: name, roles, scope, expiry and whether
// it is enabled. Its secret stays.

// Validate refuses an op that no state could accept.
func (o *SetCredential) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	p.add("name", checkText(o.Name, tenancy.MaxKeyName))
	p.add("expires_ns", checkNotNegative(o.ExpiresNs))
	p.add("if_version", checkNotNegative(o.IfVersion))
	p.add("judged_version", checkPositive(o.JudgedVersion))
	p.add("caller_version", checkNotNegative(o.CallerVersion))
	c := &Credential{Roles: o.Roles, QueueScope: o.QueueScope}
	c.checkRoles(&p, "", keyring.Namespace) // Apply refuses custom roles of a token
	if n := len(o.QueueScope); n > tenancy.MaxQueueScope {
		p.add("queue_scope", fmt.Errorf("has %d entries: at most %d", n, tenancy.MaxQueueScope))
		return p.err()
	}
	for i, glob := range o.QueueScope {
		_, err := tenancy.ParseGlob(glob)
		p.add(fmt.Sprintf("queue_scope[%d]", i), err)
	}
	return p.err()
}

// Apply changes the credential and renews the documents that show it. It refuses with NOT_FOUND a credential
// that does not exist or has expired, with STATE_CONFLICT one that is neither an API key nor a cloud token,
// and with PRECONDITION_FAILED a version other than the one the client read. It refuses with VALIDATION_ERROR
// a role that the owner does not have and an expiry that is over. It refuses with CONFLICT if the credential
// or the caller's own has changed since the caller's rights were checked, and if the change would take the
// last administrator from an organisation.
func (o *SetCredential) Apply(tx *Tx) (*SetCredentialResult, error) {
	was, err := tx.credential(o.Id)
	if err != nil {
		return nil, err
	}
	if was == nil || endNs(was.ExpiresAt) != 0 && endNs(was.ExpiresAt) <= tx.clockNs() {
		return nil, noCredential(o.Id)
	}
	if err := o.check(tx, was); err != nil {
		return nil, err
	}
	var lifetime int64
	if o.ExpiresNs != 0 {
		lifetime = o.ExpiresNs - tx.clockNs()
	}
	err = tx.put("UPDATE credentials SET name = ?, roles = ?, queue_scope = ?, enabled = ?, expires_ns = ?, lifetime_ns = ?, version = version + 1 WHERE id = ?",
		o.Name, strings.Join(o.Roles, " "), strings.Join(o.QueueScope, " "), o.Enabled, o.ExpiresNs, lifetime, o.Id)
	if err != nil {
		return nil, err
	}
	if err := tx.showCredential(o.Id); err != nil {
		return nil, err
	}
	if err := tx.touchOwner(was.Kind, was.Owner); err != nil {
		return nil, err
	}
	org, err := tx.orgOf(was.Kind, was.Owner)
	if err != nil {
		return nil, err
	}
	return &SetCredentialResult{}, tx.audit(o.Meta, org, o.Id)
}

// check makes those refusals of Apply that need the credential as it was.
func (o *SetCredential) check(tx *Tx, was *fleet.Credential) error {
	if was.Kind != keyring.Namespace && was.Kind != keyring.Org {
		return api.Errorf(api.StateConflict, "credential %q of kind %s can only be rotated or revoked", o.Id, was.Kind)
	}
	if err := tx.unchanged(was, o.IfVersion, o); err != nil {
		return err
	}
	if err := tx.checkKeyRoles(was.Kind, was.Owner, o.Roles); err != nil {
		return err
	}
	if o.ExpiresNs != 0 && o.ExpiresNs <= tx.clockNs() {
		return api.Errorf(api.ValidationError, "the credential would end at once: choose a later expires_at, or enabled false")
	}
	now := fleet.Credential{Key: tenancy.Key{ID: was.ID, Enabled: o.Enabled}}
	for _, role := range o.Roles {
		now.Roles = append(now.Roles, tenancy.Role(role))
	}
	if administers(now) && o.ExpiresNs == 0 && len(o.QueueScope) == 0 {
		return nil
	}
	return tx.staysAdministered(was)
}

// judged is an op on a credential that a caller of the API asks for. It carries the versions that this
// credential and the caller's own had when the caller's rights were checked.
type judged interface {
	GetMeta() *Meta
	GetJudgedVersion() int64
	GetCallerVersion() int64
}

// unchanged refuses an op if the credential is not at the version that the client read, or if the credential
// or the caller's own has changed since the caller's rights were checked. If version is 0, the client may
// have read any version.
func (tx *Tx) unchanged(c *fleet.Credential, version int64, o judged) error {
	switch {
	case version != 0 && version != c.Version:
		return api.Errorf(api.PreconditionFailed, "credential %s has version %d, not %d: read it again", c.ID, c.Version, version)
	case o.GetJudgedVersion() != c.Version:
		return api.Errorf(api.Conflict, "another client changed credential %s at the same time: nothing was changed, try again", c.ID)
	}
	return tx.callerUnchanged(o.GetMeta(), o.GetCallerVersion())
}

// callerUnchanged refuses an op with CONFLICT if the caller's own credential has changed since the caller's
// rights were checked. version is the one that the credential had then; 0 = an operator, who has all rights.
func (tx *Tx) callerUnchanged(m *Meta, version int64) error {
	if version == 0 {
		return nil
	}
	by, err := tx.credential(m.GetPrincipal())
	if err == nil && (by == nil || by.Version != version) {
		err = api.Errorf(api.Conflict, "the credential that asks for this was changed or revoked meanwhile: nothing was done")
	}
	return err
}

// administers reports whether a cloud token can always create others: it is enabled, has the role admin and
// every queue, and never expires.
func administers(c fleet.Credential) bool {
	return c.Enabled && c.ExpiresAt.IsZero() && len(c.QueueScope) == 0 && slices.Contains(c.Roles, tenancy.Admin)
}

// staysAdministered refuses to change or end the last token that administers an organisation, because then
// only the cloud's operators could create tokens for it.
func (tx *Tx) staysAdministered(c *fleet.Credential) error {
	if c.Kind != keyring.Org || !administers(*c) {
		return nil
	}
	all, err := list(tx, scanCredential, selectCredential+" WHERE owner = ? ORDER BY created_ns, id", c.Owner)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(other fleet.Credential) bool { return other.ID != c.ID && administers(other) }) {
		return nil
	}
	return api.Errorf(api.Conflict, "cloud token %s is the last that administers this organisation: no other is enabled, has the role admin, covers every queue and never expires. Create such a token first, or rotate this one", c.ID)
}
