package store

import (
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/tenancy"
)

// SetAsideUsage stores a frame that ApplyUsage refuses, so that the source can continue after it and its
// namespace can be deleted. It adds nothing to the sums: an operator decides whether the organisation pays.

// setAsideAction is the op's name, and the action of the audit row of every frame that is set aside.
const setAsideAction = "set-aside-usage"

// putAside stores a frame under the number of the newest audit row.
func (tx *Tx) putAside(org tenancy.OrgID, o *SetAsideUsage) error {
	return tx.put("INSERT INTO usage_aside ("+asideColumns+", frame) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		tx.head.auditSeq, tx.clockNs(), string(org), o.Namespace, o.Stream, o.Incarnation, int64(o.From), int64(o.To), o.Code, o.Reason, len(o.Frame), o.Frame)
}

// Validate refuses an op that no state could accept.
func (o *SetAsideUsage) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.checkFrame(billing.Source{Namespace: o.Namespace, Stream: o.Stream, Incarnation: o.Incarnation}, o.From, o.To)
	p.add("code", checkWord(o.Code, MaxAsideReason))
	p.add("reason", checkUTF8(o.Reason, MaxAsideReason))
	switch n := len(o.Frame); {
	case n == 0:
		p.add("frame", fmt.Errorf("is missing"))
	case n > MaxAsideFrame:
		p.add("frame", fmt.Errorf("has %d bytes; at most %d are allowed", n, MaxAsideFrame))
	}
	return p.err()
}

// Apply stores the frame. It refuses with NOT_FOUND an unknown namespace. It refuses with STATE_CONFLICT a
// namespace that is neither being deleted nor deleted, and a frame that does not follow the last one. At a
// bound it refuses the frame with OVERLOADED, so that the host keeps the frame and the deletion waits. A
// frame that was stored or applied before changes nothing.
func (o *SetAsideUsage) Apply(tx *Tx) (*SetAsideUsageResult, error) {
	ns, err := tx.namespace(o.Namespace)
	if err != nil {
		return nil, err
	}
	if ns.Phase != fleet.Deleting && ns.Phase != fleet.Deleted {
		return nil, api.Errorf(api.StateConflict, "namespace %s is not being deleted: its host keeps refused usage until the cause is repaired", o.Namespace)
	}
	last, err := lastUsage(tx, billing.Source{Namespace: o.Namespace, Stream: o.Stream, Incarnation: o.Incarnation})
	if err != nil {
		return nil, err
	}
	switch {
	case o.To <= last:
		return &SetAsideUsageResult{Last: last}, nil
	case o.From != last+1:
		return nil, usageGap(last, o.From, o.To)
	}
	if err := asideRoom(tx, tx.limits, o.Namespace, len(o.Frame)); err != nil {
		return nil, err
	}
	// The frame has the number of its audit row, because a frame that is removed must not leave its number to
	// another.
	if err := tx.audit(o.Meta, ns.Org, o.Namespace); err != nil {
		return nil, err
	}
	if err := tx.putAside(ns.Org, o); err != nil {
		return nil, err
	}
	return &SetAsideUsageResult{Last: o.To}, tx.putSource(o.Namespace, o.Stream, o.Incarnation, o.To)
}
