package op

import (
	"errors"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// RecordRequests records in the audit log requests that led to no op: refused requests, and requests to a
// node that change no state. Servers collect the requests and record many in one op, so that many forbidden
// requests cost little. A repeat of the op is recognised by its request id and adds nothing.

// Validate refuses an op that no state could accept.
func (o *RecordRequests) Validate() error {
	var p problems
	o.Meta.check(&p)
	if len(o.GetMeta().GetRequestId()) == 0 {
		p.add("meta.request_id", errors.New("is missing"))
	}
	p.length("requests", len(o.Requests), job.MaxAuditRequests)
	if len(o.Requests) <= job.MaxAuditRequests {
		for i, r := range o.Requests {
			p.item("requests", i, "principal", job.CheckText(r.GetPrincipal(), job.MaxPrincipal))
			if r.GetCount() == 0 {
				p.item("requests", i, "count", errors.New("is missing"))
			}
			if r.GetAudit() == nil {
				p.item("requests", i, "audit", errors.New("is missing"))
			}
			r.GetAudit().check(&p, "requests.audit")
		}
	}
	p.whole(o)
	return p.err()
}

// Apply records the requests. It refuses nothing.
func (o *RecordRequests) Apply(tx *state.Tx) (*RecordRequestsResult, error) {
	if tx.Audited(o.Meta.RequestId, "") {
		return &RecordRequestsResult{}, nil
	}
	for _, request := range o.Requests {
		r := request.Audit.record(request.Principal)
		r.Count, r.Nonce = request.Count, o.Meta.RequestId
		if err := tx.AddAudit(r); err != nil {
			return nil, err
		}
	}
	return &RecordRequestsResult{}, nil
}
