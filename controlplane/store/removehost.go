package store

import (
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/fleet"
)

// RemoveHost removes a host or gateway and revokes its credentials. The rows of its stores stay, so that no
// other host takes a store.

// Validate refuses an op that no state could accept.
func (o *RemoveHost) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	p.add("expect_version", checkNotNegative(o.ExpectVersion))
	return p.err()
}

// Apply removes the host. It refuses with NOT_FOUND an unknown host, and with PRECONDITION_FAILED a version
// other than the expected one (0 = any). It refuses with STATE_CONFLICT a host that still has namespaces,
// even if all of them are being deleted.
func (o *RemoveHost) Apply(tx *Tx) (*RemoveHostResult, error) {
	h, err := tx.hostAt(o.Id, o.ExpectVersion)
	if err != nil {
		return nil, err
	}
	if err := tx.holdsNothing(h); err != nil {
		return nil, err
	}
	credentials, err := list(tx, scalar[string], "SELECT id FROM credentials WHERE owner = ? ORDER BY id", h.ID)
	if err != nil {
		return nil, err
	}
	for _, id := range credentials {
		if err := tx.dropCredential(id); err != nil {
			return nil, err
		}
	}
	if _, err := tx.exec("UPDATE stores SET lost_ns = ? WHERE host = ? AND lost_ns = 0", tx.clockNs(), h.ID); err != nil {
		return nil, err
	}
	for _, statement := range []string{"DELETE FROM drains WHERE host = ?", "DELETE FROM zones WHERE host = ?", "DELETE FROM member_roots WHERE host = ?"} {
		if _, err := tx.exec(statement, h.ID); err != nil {
			return nil, err
		}
	}
	if err := tx.put("DELETE FROM hosts WHERE id = ?", h.ID); err != nil {
		return nil, err
	}
	tx.wake = true
	return &RemoveHostResult{}, tx.audit(o.Meta, "", h.ID)
}

// holdsNothing refuses the removal of a host with members of namespaces, because their groups need them, and some may
// be the only ones.
func (tx *Tx) holdsNothing(h fleet.Host) error {
	if h.Namespaces == 0 {
		return nil
	}
	deleting, err := number(tx, `SELECT COUNT(*) FROM stores s JOIN members m ON m.store = s.id AND m.deleted = 0
		JOIN namespaces n ON n.id = m.namespace WHERE s.host = ? AND n.phase = ?`, h.ID, string(fleet.Deleting))
	if err != nil {
		return err
	}
	placed := int64(h.Namespaces) - deleting
	refused := api.Errorf(api.StateConflict, "%s is still deleting the data of %s: keep it running until their operations have ended", h.Name, namespaces(deleting))
	if placed > 0 {
		refused = api.Errorf(api.StateConflict, "%s has data of %s: drain it, or delete the namespaces, and wait until it has none", h.Name, namespaces(placed))
	}
	refused.Details = map[string]any{"namespaces": placed, "deleting": deleting}
	return refused
}

// namespaces returns a number of namespaces in words.
func namespaces(n int64) string {
	if n == 1 {
		return "1 namespace"
	}
	return fmt.Sprintf("%d namespaces", n)
}
