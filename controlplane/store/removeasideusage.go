package store

import (
	"fmt"
)

// RemoveAsideUsage removes a frame that was set aside, once an operator has decided about it. The audit log
// names the frame and the operator. The last number of the frame's source stays, so that no host sends the
// frame again.

// Validate refuses an op that no state could accept.
func (o *RemoveAsideUsage) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("seq", checkPositive(o.Seq))
	return p.err()
}

// Apply removes the frame. It refuses with NOT_FOUND a number under which no frame is set aside.
func (o *RemoveAsideUsage) Apply(tx *Tx) (*RemoveAsideUsageResult, error) {
	frame, found, err := first(tx, scanAside, selectAside+" WHERE seq = ?", o.Seq)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, noAside(o.Seq)
	}
	// The audit row comes first, because the trigger on the table demands it.
	if err := tx.audit(o.Meta, frame.Org, fmt.Sprintf("%s/%d", frame.Source.Namespace, o.Seq)); err != nil {
		return nil, err
	}
	return &RemoveAsideUsageResult{}, tx.put("DELETE FROM usage_aside WHERE seq = ?", o.Seq)
}
