package store

import (
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/tenancy/keyring"
)

// CreateHost registers a host or gateway together with its credential. If ensure is set and a credential with
// the same id and hash exists and has not expired, the op changes nothing and returns the id of that
// credential's owner.

// Validate refuses an op that no state could accept.
func (o *CreateHost) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	p.add("name", checkName(o.Name))
	p.add("region", checkText(o.Region, MaxRegion))
	p.add("zone", checkText(o.Zone, MaxZone))
	if o.Zone != "" && keyring.Kind(o.Kind) == keyring.Gateway {
		p.add("zone", fmt.Errorf("is %q: a gateway has none", o.Zone))
	}
	if k := keyring.Kind(o.Kind); k != keyring.Host && k != keyring.Gateway {
		p.add("kind", fmt.Errorf("is %q: use %s or %s", o.Kind, keyring.Host, keyring.Gateway))
	}
	o.GetCredential().check(&p, "credential")
	if c := o.GetCredential(); c != nil && (c.Owner != o.Id || c.Kind != o.Kind) {
		p.add("credential", fmt.Errorf("is a %s's of %q: it takes one of the %s itself", c.Kind, c.Owner, o.Kind))
	}
	return p.err()
}

// Apply registers the host. It refuses with CONFLICT an id or a name that is taken, a credential id that
// another credential has or had, and a host above the limit. It refuses with VALIDATION_ERROR a credential
// whose expiry is over.
func (o *CreateHost) Apply(tx *Tx) (*CreateHostResult, error) {
	c := o.GetCredential()
	same, err := tx.sameCredential(c.GetId(), c.GetHash(), o.Ensure)
	if err != nil {
		return nil, err
	}
	if same != nil {
		return &CreateHostResult{Id: same.Owner}, nil
	}
	taken, err := number(tx, "SELECT COUNT(*) FROM hosts WHERE id = ? OR name = ?", o.Id, o.Name)
	if err != nil {
		return nil, err
	}
	if taken > 0 {
		return nil, api.Errorf(api.Conflict, "there is a host or gateway %q already: choose another name", o.Name)
	}
	n, err := number(tx, "SELECT COUNT(*) FROM hosts")
	if err != nil {
		return nil, err
	}
	if n >= tx.limits.hosts {
		return nil, api.Errorf(api.Conflict, "the cloud has %d hosts and gateways, the maximum", tx.limits.hosts)
	}
	err = tx.put("INSERT INTO hosts (id, name, kind, region, address, binary, version, created_ns, raft) VALUES (?, ?, ?, ?, '', '', 1, ?, '')",
		o.Id, o.Name, o.Kind, o.Region, tx.clockNs())
	if err != nil {
		return nil, err
	}
	if o.Zone != "" {
		if err := tx.put("INSERT INTO zones (host, zone) VALUES (?, ?)", o.Id, o.Zone); err != nil {
			return nil, err
		}
	}
	if err := tx.addCredential(c, 0); err != nil {
		return nil, err
	}
	tx.wake = true
	return &CreateHostResult{Id: o.Id}, tx.audit(o.Meta, "", o.Id)
}
