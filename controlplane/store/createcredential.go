package store

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// CreateCredential adds a credential. If ensure is set and a credential with the same id and hash exists and
// has not expired, the op succeeds and changes nothing.

// Validate refuses an op that no state could accept.
func (o *CreateCredential) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	o.GetCredential().check(&p, "credential")
	p.add("caller_version", checkNotNegative(o.CallerVersion))
	return p.err()
}

// Apply adds the credential. It refuses with CONFLICT an id that another credential has or had, a credential
// above the limit, and a caller whose own credential has changed since the caller's rights were checked. It
// refuses with NOT_FOUND an owner that does not exist, and with STATE_CONFLICT one that is being deleted or
// is of another kind. It refuses with VALIDATION_ERROR an expiry that is over and a role that the owner does
// not have.
func (o *CreateCredential) Apply(tx *Tx) (*CreateCredentialResult, error) {
	c := o.GetCredential()
	same, err := tx.sameCredential(c.GetId(), c.GetHash(), o.Ensure)
	if err != nil {
		return nil, err
	}
	if same != nil {
		return &CreateCredentialResult{Id: c.GetId()}, nil
	}
	if err := tx.callerUnchanged(o.Meta, o.CallerVersion); err != nil {
		return nil, err
	}
	if err := tx.checkOwner(c); err != nil {
		return nil, err
	}
	if err := tx.addCredential(c, 0); err != nil {
		return nil, err
	}
	org, err := tx.orgOf(keyring.Kind(c.GetKind()), c.GetOwner())
	if err != nil {
		return nil, err
	}
	return &CreateCredentialResult{Id: c.GetId()}, tx.audit(o.Meta, org, c.GetId())
}

// checkOwner refuses an owner that does not exist, is being deleted or is of another kind than the
// credential.
func (tx *Tx) checkOwner(c *Credential) error {
	switch kind := keyring.Kind(c.GetKind()); kind {
	case keyring.Namespace:
		n, err := tx.living(c.GetOwner())
		if err == nil && n.Phase == fleet.Deleting {
			err = api.Errorf(api.StateConflict, "namespace %q is being deleted: it gets no keys any more", n.Name)
		}
		return err
	case keyring.Org:
		_, err := tx.org(tenancy.OrgID(c.GetOwner()))
		return err
	case keyring.Host, keyring.Gateway:
		h, err := tx.host(c.GetOwner())
		if err == nil && h.Kind != kind {
			err = api.Errorf(api.StateConflict, "%s is of kind %s, the credential of kind %s", h.ID, h.Kind, kind)
		}
		return err
	}
	return nil
}
