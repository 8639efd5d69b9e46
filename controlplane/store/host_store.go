package store

import (
	"fmt"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/tenancy/keyring"
)

// Superseded returns the refusal for a process of h that is older than the newest process of h. The refused
// process recognises the refusal by its details and stops serving.
func Superseded(h fleet.Host) *api.Error {
	return wire.Superseded(fmt.Sprintf("a newer process of host %s runs at %s on %s: this process must not serve any more", h.Name, h.Address, h.Store), h.Store, h.Address)
}

// foreignStore returns the refusal for a store that belongs to another host, which may have been removed.
func (tx *Tx) foreignStore(store, owner string) error {
	of, err := tx.host(owner)
	switch {
	case api.CodeOf(err) == api.NotFound:
		return wire.Superseded(fmt.Sprintf("%s belongs to host %s, which was removed: start this host in an empty directory", store, owner), store, "")
	case err != nil:
		return err
	}
	return wire.Superseded(fmt.Sprintf("%s belongs to host %s (%s): start it with that host's credential, or start this host in an empty directory", store, of.Name, of.ID), store, of.Address)
}

// bindStore makes store the current store of a host, and returns the number of the process that joins with it
// and whether anything changed. A process that starts joins with run 0 and gets the next number. A process
// that joins again must be the newest one. A number above the newest is accepted, because the control plane
// may have lost changes.
//
// If the host had another store, that one counts as lost until the host joins with it again: a host that was
// started in a wrong directory must be able to go back, and the lost store still has its votes and its data.
func (tx *Tx) bindStore(h fleet.Host, store string, run int64) (newest int64, changed bool, err error) {
	if h.Kind != keyring.Host {
		return 0, false, api.Errorf(api.StateConflict, "%s is a gateway: it has no store", h.ID)
	}
	owner, found, err := first(tx, scalar[string], "SELECT host FROM stores WHERE id = ?", store)
	switch {
	case err != nil:
		return 0, false, err
	case found && owner != h.ID:
		return 0, false, tx.foreignStore(store, owner)
	case run != 0 && (run < h.Run || run == h.Run && h.Store != store):
		return 0, false, Superseded(h)
	case run != 0 && run == h.Run:
		return run, false, nil
	case run == 0:
		run = h.Run + 1
	}
	if h.Store != "" && h.Store != store {
		if err := tx.put("UPDATE stores SET lost_ns = ? WHERE id = ?", tx.clockNs(), h.Store); err != nil {
			return 0, false, err
		}
	}
	if found {
		return run, true, tx.put("UPDATE stores SET run = ?, lost_ns = 0 WHERE id = ?", run, store)
	}
	return run, true, tx.addStore(h, store, run)
}

// addStore adds a new store.
func (tx *Tx) addStore(h fleet.Host, store string, run int64) error {
	n, err := number(tx, "SELECT COUNT(*) FROM stores WHERE host = ?", h.ID)
	if err != nil {
		return err
	}
	if n >= tx.limits.stores {
		return api.Errorf(api.Conflict, "host %s has joined with %d stores, the maximum: register another host", h.Name, n)
	}
	return tx.put("INSERT INTO stores (id, host, run, created_ns, lost_ns) VALUES (?, ?, ?, ?, 0)", store, h.ID, run, tx.clockNs())
}
