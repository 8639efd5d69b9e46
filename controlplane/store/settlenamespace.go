package store

import (
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/fleet"
)

// SettleNamespace records that the list of members is in force in the groups of all shards. The namespace becomes
// active, its create operation ends, and the leaving members are dropped: their hosts may delete their copies. If the
// namespace was recovered and has all its members again, hosts may delete the copies of the earlier groups.

// Validate refuses an op that no state could accept.
func (o *SettleNamespace) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	p.add("generation", checkPositive(o.Generation))
	if n := len(o.Configurations); n < 1 || n > MaxShards {
		p.add("configurations", fmt.Errorf("has %d entries: a namespace has 1 to %d shards", n, MaxShards))
	}
	return p.err()
}

// Apply settles the namespace. It refuses with NOT_FOUND an unknown namespace. It refuses with STATE_CONFLICT
// another generation, and a namespace that is not placed, is paused, is not founded, is being deleted or is deleted. It
// also refuses configurations of another number of shards, and one before that of an earlier op. A repeat changes
// nothing.
//
// A namespace without incarnations is settled, because the logs of earlier versions have such ops.
func (o *SettleNamespace) Apply(tx *Tx) (*SettleNamespaceResult, error) {
	n, err := tx.namespace(o.Id)
	if err != nil {
		return nil, err
	}
	if err := checkStep(n, o.Generation); err != nil {
		return nil, err
	}
	open := n.Phase == fleet.Provisioning || n.Phase == fleet.Active
	switch {
	case n.Phase == fleet.Active && n.Observed == n.Generation:
		return &SettleNamespaceResult{}, nil
	case !open || len(n.Members) == 0 || n.Incarnations != nil && !n.Founded:
		return nil, misplaced(n, "settled")
	}
	if err := o.recordConfigurations(tx, n); err != nil {
		return nil, err
	}
	if n.Operation != "" {
		if err := tx.finish(&n, nil); err != nil {
			return nil, err
		}
	}
	if err := tx.setMembers(&n, n.Listed()); err != nil {
		return nil, err
	}
	if n.RecoveredFrom != "" && len(n.Members) == n.Spec.Replicas {
		if err := tx.put("DELETE FROM recoveries WHERE namespace = ?", o.Id); err != nil {
			return nil, err
		}
	}
	n.Phase, n.Observed = fleet.Active, n.Generation
	tx.touch(&n)
	if err := tx.updateNamespace(n); err != nil {
		return nil, err
	}
	return &SettleNamespaceResult{}, tx.audit(o.Meta, n.Org, o.Id)
}

// recordConfigurations records the indexes of the configurations. They never fall, because a host that has left
// compares them with its log before it deletes its copy.
func (o *SettleNamespace) recordConfigurations(tx *Tx, n fleet.Namespace) error {
	if len(o.Configurations) == 0 && len(n.Members) == 1 {
		return nil // as in ops of earlier versions
	}
	if len(o.Configurations) != n.Spec.Shards {
		return api.Errorf(api.StateConflict, "namespace %s has %d shards, and the configurations of %d are reported", n.ID, n.Spec.Shards, len(o.Configurations))
	}
	for shard, index := range n.Configurations {
		if o.Configurations[shard] < index {
			return api.Errorf(api.StateConflict, "shard %d of namespace %s has reported the configuration %d, and reports the earlier %d", shard, n.ID, index, o.Configurations[shard])
		}
	}
	return tx.putConfigurations(o.Id, o.Configurations)
}
