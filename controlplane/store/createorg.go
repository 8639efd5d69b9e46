package store

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/tenancy"
)

// CreateOrg adds an organisation.

// Validate refuses an op that no state could accept.
func (o *CreateOrg) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	p.add("name", checkName(o.Name))
	return p.err()
}

// Apply adds the organisation. It refuses with CONFLICT an id or a name that is taken, and an organisation above the
// limit.
func (o *CreateOrg) Apply(tx *Tx) (*CreateOrgResult, error) {
	taken, err := number(tx, "SELECT COUNT(*) FROM orgs WHERE id = ? OR name = ?", o.Id, o.Name)
	if err != nil {
		return nil, err
	}
	if taken > 0 {
		return nil, api.Errorf(api.Conflict, "there is an organisation %q already: choose another name", o.Name)
	}
	n, err := number(tx, "SELECT COUNT(*) FROM orgs")
	if err != nil {
		return nil, err
	}
	if n >= tx.limits.orgs {
		return nil, api.Errorf(api.Conflict, "the cloud has %d organisations, the maximum", tx.limits.orgs)
	}
	if err := tx.put("INSERT INTO orgs (id, name, version, created_ns) VALUES (?, ?, 1, ?)", o.Id, o.Name, tx.clockNs()); err != nil {
		return nil, err
	}
	return &CreateOrgResult{Id: o.Id}, tx.audit(o.Meta, tenancy.OrgID(o.Id), o.Id)
}
