package store

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/tenancy/keyring"
)

// DrainHost records that a host shall have no namespaces. The reconciler places none on it any more, and replaces its
// members of namespaces, until UndrainHost.

// Validate refuses an op that no state could accept.
func (o *DrainHost) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	p.add("expect_version", checkNotNegative(o.ExpectVersion))
	return p.err()
}

// Apply records the drain with the time of the entry and the op's principal. It refuses with NOT_FOUND an unknown
// host, with PRECONDITION_FAILED a version other than the expected one (0 = any), and with STATE_CONFLICT a gateway. If
// the host drains already, Apply writes nothing.
func (o *DrainHost) Apply(tx *Tx) (*DrainHostResult, error) {
	h, err := tx.hostAt(o.Id, o.ExpectVersion)
	switch {
	case err != nil:
		return nil, err
	case h.Kind != keyring.Host:
		return nil, api.Errorf(api.StateConflict, "%s is a gateway, which holds no namespaces: stop it, and remove it", h.Name)
	case h.Draining:
		return &DrainHostResult{}, nil
	}
	if err := tx.put("INSERT INTO drains (host, principal, at_ns) VALUES (?, ?, ?)", h.ID, o.GetMeta().GetPrincipal(), tx.clockNs()); err != nil {
		return nil, err
	}
	return &DrainHostResult{}, tx.changedHost(o.Meta, h)
}

// changedHost ends an op that has changed the intent for a host: it raises the host's version, wakes the reconciler and
// adds the audit row.
func (tx *Tx) changedHost(meta *Meta, h fleet.Host) error {
	if err := tx.touchHost(h.ID); err != nil {
		return err
	}
	tx.wake = true
	return tx.audit(meta, "", h.ID)
}
