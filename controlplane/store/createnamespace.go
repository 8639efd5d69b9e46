package store

import (
	"errors"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/tenancy"
)

// CreateNamespace adds a namespace in the phase provisioning, and the operation that ends when the namespace
// is ready.

// Validate refuses an op that no state could accept.
func (o *CreateNamespace) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	p.add("org", checkID(o.Org))
	p.add("name", checkName(o.Name))
	p.add("operation_id", checkID(o.OperationId))
	o.GetSpec().check(&p)
	if shards := o.GetSpec().GetShards(); shards >= 1 && shards <= MaxShards {
		checkIncarnations(&p, o.Incarnations, int(shards))
	}
	return p.err()
}

// check adds the faults of a spec.
func (s *Spec) check(p *problems) {
	if s == nil {
		p.add("spec", errors.New("is missing"))
		return
	}
	p.add("spec.region", checkText(s.Region, MaxRegion))
	if s.Tier != "shared" && s.Tier != "dedicated" {
		p.add("spec.tier", fmt.Errorf("is %q: use shared or dedicated", s.Tier))
	}
	p.add("spec.replicas", checkReplicas(s.Replicas))
	if s.Shards < 1 || s.Shards > MaxShards {
		p.add("spec.shards", fmt.Errorf("is %d: use 1 to %d", s.Shards, MaxShards))
	}
}

// checkReplicas checks a number of replicas. An even number of voters tolerates no more failures than the odd number
// below.
func checkReplicas(n uint32) error {
	if n%2 == 0 || n > MaxReplicas {
		return fmt.Errorf("is %d: use 1, 3 or 5", n)
	}
	return nil
}

// Apply adds the namespace. It refuses with NOT_FOUND an organisation that does not exist. It refuses with
// CONFLICT an id that was ever used, the name of another namespace of the organisation that is not deleted,
// an operation id that is taken, and a namespace above the limit.
func (o *CreateNamespace) Apply(tx *Tx) (*CreateNamespaceResult, error) {
	org, err := tx.org(tenancy.OrgID(o.Org))
	if err != nil {
		return nil, err
	}
	taken, err := number(tx, "SELECT COUNT(*) FROM namespaces WHERE id = ? OR org = ? AND name = ? AND phase <> 'deleted'", o.Id, o.Org, o.Name)
	if err != nil {
		return nil, err
	}
	if taken > 0 {
		return nil, api.Errorf(api.Conflict, "there is a namespace %q already: choose another name", o.Name)
	}
	if int64(org.Namespaces) >= tx.limits.namespaces {
		return nil, api.Errorf(api.Conflict, "the organisation has %d namespaces, the maximum: delete one first", tx.limits.namespaces)
	}
	s := o.GetSpec()
	n := fleet.Namespace{
		ID: tenancy.NamespaceID(o.Id), Org: org.ID, Name: o.Name, Version: 1, Generation: 1,
		Spec: fleet.Spec{
			Region: s.GetRegion(), Tier: s.GetTier(), Replicas: int(s.GetReplicas()), Shards: int(s.GetShards()),
			DeletionProtection: s.GetDeletionProtection(),
		},
		Phase: fleet.Provisioning, CreatedNs: tx.clockNs(),
	}
	if err := tx.begin(&n, o.OperationId, fleet.CreateNamespace, o.Meta); err != nil {
		return nil, err
	}
	tx.touch(&n)
	if err := tx.insertNamespace(n); err != nil {
		return nil, err
	}
	if len(o.Incarnations) > 0 { // ops of earlier versions have none
		if err := tx.putFounding(o.Id, o.Incarnations, 0); err != nil {
			return nil, err
		}
	}
	if err := tx.touchOrg(org.ID); err != nil {
		return nil, err
	}
	return &CreateNamespaceResult{Id: o.Id, OperationId: o.OperationId}, tx.audit(o.Meta, org.ID, o.Id)
}
