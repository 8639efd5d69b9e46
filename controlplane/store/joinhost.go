package store

import "fmt"

// JoinHost records the address and the version of a host or gateway, the roots that it trusts, and the store and the
// Raft address of a host.

// Validate refuses an op that no state could accept.
func (o *JoinHost) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	p.add("address", checkText(o.Address, MaxAddress))
	p.add("version", checkText(o.Version, MaxVersion))
	p.add("raft", checkText(o.Raft, MaxRaftAddress))
	if o.Store != "" {
		p.add("store", checkID(o.Store))
	}
	if o.Run < 0 || o.Run > 0 && o.Store == "" {
		p.add("run", fmt.Errorf("is %d: it counts the processes of a store", o.Run))
	}
	p.addMemberRoots(o.Roots, o.Issuer)
	return p.err()
}

// Apply records the addresses, version and store, and returns the number of the process that joins. It refuses
// with NOT_FOUND an unknown host, with STATE_CONFLICT a store for a gateway, and with CONFLICT a store above
// the limit. It refuses a store of another host, and a process older than the host's newest one, with the
// STATE_CONFLICT that makes a member stop. If an address or the store has changed, Apply renews the
// documents of the namespaces with members on the host's stores. If nothing has changed, it writes nothing.
func (o *JoinHost) Apply(tx *Tx) (*JoinHostResult, error) {
	h, err := tx.host(o.Id)
	if err != nil {
		return nil, err
	}
	run, started := int64(0), false
	if o.Store != "" {
		if run, started, err = tx.bindStore(h, o.Store, o.Run); err != nil {
			return nil, err
		}
	}
	renewed, err := tx.keepMemberRoots(h.ID, o.Roots, o.Issuer)
	if err != nil {
		return nil, err
	}
	if !started && !renewed && h.Address == o.Address && h.Raft == o.Raft && h.Binary == o.Version {
		return &JoinHostResult{Run: run}, nil
	}
	if err := tx.put("UPDATE hosts SET address = ?, raft = ?, binary = ?, version = version + 1 WHERE id = ?", o.Address, o.Raft, o.Version, o.Id); err != nil {
		return nil, err
	}
	if h.Address != o.Address || h.Raft != o.Raft || o.Store != "" && h.Store != o.Store {
		err := tx.touchAll(`SELECT DISTINCT m.namespace FROM stores s JOIN members m ON m.store = s.id AND m.deleted = 0
			WHERE s.host = ? ORDER BY m.namespace`, o.Id)
		if err != nil {
			return nil, err
		}
	}
	tx.wake = true
	return &JoinHostResult{Run: run}, tx.audit(o.Meta, "", o.Id)
}
