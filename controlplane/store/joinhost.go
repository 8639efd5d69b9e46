package store

import "fmt"

// JoinHost records the address and the version of a host or gateway, and the store of a host.

// Validate refuses an op that no state could accept.
func (o *JoinHost) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	p.add("address", checkText(o.Address, MaxAddress))
	p.add("version", checkText(o.Version, MaxVersion))
	if o.Store != "" {
		p.add("store", checkID(o.Store))
	}
	if o.Run < 0 || o.Run > 0 && o.Store == "" {
		p.add("run", fmt.Errorf("is %d: it counts the processes of a store", o.Run))
	}
	return p.err()
}

// Apply records the address, version and store, and returns the number of the process that joins. It refuses
// with NOT_FOUND an unknown host, with STATE_CONFLICT a store for a gateway, and with CONFLICT a store above
// the limit. It refuses a store of another host, and a process older than the host's newest one, with the
// STATE_CONFLICT that makes a member stop. If the address or the store has changed, Apply renews the
// documents of the namespaces on the host. If nothing has changed, it writes nothing.
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
	if !started && h.Address == o.Address && h.Binary == o.Version {
		return &JoinHostResult{Run: run}, nil
	}
	if err := tx.put("UPDATE hosts SET address = ?, binary = ?, version = version + 1 WHERE id = ?", o.Address, o.Version, o.Id); err != nil {
		return nil, err
	}
	if h.Address != o.Address || o.Store != "" && h.Store != o.Store {
		if err := tx.touchAll("SELECT id FROM namespaces WHERE host = ? AND phase <> 'deleted' ORDER BY id", o.Id); err != nil {
			return nil, err
		}
	}
	tx.wake = true
	return &JoinHostResult{Run: run}, tx.audit(o.Meta, "", o.Id)
}
