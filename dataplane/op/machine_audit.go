package op

import (
	"errors"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// check checks the audit record that a request asks for. A nil Audit asks for none.
func (a *Audit) check(p *problems, field string) {
	if a == nil {
		return
	}
	p.add(field+".role", job.CheckText(a.Role, job.MaxAuditRole))
	p.add(field+".method", job.CheckText(a.Method, job.MaxAuditWord))
	p.add(field+".path", job.CheckText(a.Path, job.MaxAuditPath))
	p.add(field+".request_id", job.CheckText(a.RequestId, job.MaxAuditWord))
	p.add(field+".remote", job.CheckText(a.Remote, job.MaxAuditWord))
	if a.Method == "" || a.Path == "" {
		p.add(field, errors.New("has no method or no path"))
	}
	if a.Status < 100 || a.Status > 599 {
		p.add(field+".status", fmt.Errorf("is %d; an HTTP status is from 100 to 599", a.Status))
	}
}

// record returns the audit record of a request.
func (a *Audit) record(principal string) *state.AuditRecord {
	return &state.AuditRecord{
		Principal: principal, Role: a.Role, Method: a.Method, Path: a.Path, Status: a.Status,
		RequestId: a.RequestId, Remote: a.Remote, Count: 1,
	}
}

// applyAudited applies an op. If the op's Meta asks for an audit record, applyAudited adds one in the same
// transaction, also for a refused op. A request with several ops leaves a record of each, on the shard of
// that op.
//
// Two kinds of repeats add none. An op that is answered from an idempotency key belongs to the earlier
// request. If one of the newest records has the kind and the Meta.RequestId of the op, a server that lost the
// answer has proposed the op again.
func (m *Machine) applyAudited(tx *state.Tx, k *Kind, o Op) (Result, error) {
	result, remembered, err := m.applyOnce(tx, k, o)
	meta := o.GetMeta()
	if meta.GetAudit() == nil || remembered {
		return result, err
	}
	refused, ok := err.(*api.Error)
	if err != nil && !ok {
		return nil, err // the replica stops here
	}
	if len(meta.RequestId) > 0 && tx.Audited(meta.RequestId, k.Name) {
		return result, err
	}
	r := meta.Audit.record(meta.Principal)
	r.Op, r.Nonce = k.Name, meta.RequestId
	switch one := result.(type) {
	case sole:
		if refusal := one.sole(); refusal.GetCode() != "" {
			r.Status = uint32(api.Code(refusal.Code).Status())
		}
	case nil:
		r.Status = uint32(refused.Code.Status())
	}
	if failed := tx.AddAudit(r); failed != nil {
		return nil, failed
	}
	return result, err
}

// sole is the Result of a plural op that a person's request may propose. The refusal of an item does not
// refuse such an op as a whole, so a request for one item takes its audit status from that item's refusal.
type sole interface {
	// sole returns the refusal of the only item. If that item was done, or if there are several items, sole
	// returns nil or a Refusal without a code.
	sole() *Refusal
}

func (r *JobsResult) sole() *Refusal {
	if len(r.Items) != 1 {
		return nil
	}
	return r.Items[0].GetRefusal()
}

func (r *MoveJobsResult) sole() *Refusal {
	if len(r.Items) != 1 {
		return nil
	}
	return r.Items[0]
}
