package sim

import (
	"fmt"
	"slices"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/pipeline"
)

// modelAudit is the expected audit log.
type modelAudit struct {
	records []modelRecord // record i has number i+1; includes trimmed records
	first   uint64        // the first record kept
	begun   uint64        // number of the first record that the running entry adds
}

// modelRecord is one expected record of the audit log.
type modelRecord struct {
	principal, method, path, op, nonce string
	status                             uint32
	count                              uint64
	atNs                               int64
}

// apply applies one op of an entry and adds its audit record.
func (m *model) apply(o op.Op) outcome {
	out := m.applyOnce(o)
	meta := o.GetMeta()
	if meta.GetAudit() == nil || out.old {
		return out
	}
	status := meta.Audit.Status
	refused := out.refused
	switch r := out.result.(type) {
	case *op.JobsResult:
		if len(r.Items) == 1 {
			refused = api.Code(r.Items[0].GetRefusal().GetCode())
		}
	case *op.MoveJobsResult:
		if len(r.Items) == 1 {
			refused = api.Code(r.Items[0].GetCode())
		}
	}
	if refused != "" {
		status = uint32(refused.Status())
	}
	m.record(meta, meta.Audit, op.KindFor(o).Name, meta.Principal, status, 1)
	return out
}

// record adds a record, unless one of the newest 1,024 kept records has the same op and request.
func (m *model) record(meta *op.Meta, a *op.Audit, name, principal string, status uint32, count uint64) {
	if m.knowsAudited(meta.RequestId, name) {
		return
	}
	m.audit.records = append(m.audit.records, modelRecord{
		principal: principal, method: a.Method, path: a.Path, op: name, nonce: string(meta.RequestId), status: status, count: count, atNs: m.clockNs,
	})
}

func (m *model) knowsAudited(nonce []byte, name string) bool {
	const back = 1024
	kept := m.audit.records[m.audit.first-1:]
	kept = kept[max(0, len(kept)-back):]
	return len(nonce) > 0 && slices.ContainsFunc(kept, func(r modelRecord) bool { return r.nonce == string(nonce) && r.op == name })
}

func (m *model) recordRequests(o *op.RecordRequests) outcome {
	out := outcome{result: &op.RecordRequestsResult{}}
	if m.knowsAudited(o.Meta.RequestId, "") {
		return out
	}
	for _, r := range o.Requests {
		m.audit.records = append(m.audit.records, modelRecord{
			principal: r.Principal, method: r.Audit.Method, path: r.Audit.Path, nonce: string(o.Meta.RequestId), status: r.Audit.Status,
			count: r.Count, atNs: m.clockNs,
		})
	}
	return out
}

func (m *model) trimAudit(o *op.TrimAudit) outcome {
	if o.FirstSeq < m.audit.first || o.FirstSeq > m.audit.begun {
		return outcome{refused: api.StateConflict}
	}
	m.audit.first = o.FirstSeq
	return outcome{result: &op.TrimAuditResult{}}
}

// compareAudit compares a store's audit log with the model's. The store itself checks that the hashes fit.
func (m *model) compareAudit(v *state.Snapshot) error {
	first, next := v.Head().GetAudit().Records()
	if want := uint64(len(m.audit.records)) + 1; first != m.audit.first || next != want {
		return fmt.Errorf("the store has the audit records [%d,%d), the model [%d,%d)", first, next, m.audit.first, want)
	}
	for seq := first; seq < next; seq++ {
		r, err := v.Audit(seq)
		if err != nil {
			return err
		}
		is := modelRecord{r.GetPrincipal(), r.GetMethod(), r.GetPath(), r.GetOp(), string(r.GetNonce()), r.GetStatus(), r.GetCount(), r.GetClockNs()}
		if is != m.audit.records[seq-1] {
			return fmt.Errorf("audit record %d is %+v in the store, %+v in the model", seq, is, m.audit.records[seq-1])
		}
	}
	return nil
}

// audited adds audit data to some management ops, as a server does for its management routes.
func (w *workload) audited(o op.Op) op.Op {
	meta := o.GetMeta()
	if meta == nil || op.KindFor(o).Class != pipeline.ClassManage || !w.chance(3) {
		return o
	}
	meta.Audit = w.audit(200)
	if len(meta.RequestId) == 0 {
		meta.RequestId = w.bytes(16)
	}
	return o
}

func (w *workload) audit(status uint32) *op.Audit {
	return &op.Audit{Role: "admin", Method: pick(w, []string{"POST", "PUT", "DELETE"}), Path: pick(w, []string{"/a", "/b"}), RequestId: "r", Status: status, Remote: "192.0.2.1"}
}

func (w *workload) recordRequests() op.Op {
	o := &op.RecordRequests{Meta: &op.Meta{Principal: "audit", RequestId: w.bytes(16)}}
	for range 1 + w.rng.IntN(3) {
		o.Requests = append(o.Requests, &op.Request{
			Principal: pick(w, []string{"", "alice"}), Audit: w.audit(pick(w, []uint32{401, 403})), Count: 1 + w.rng.Uint64N(9),
		})
	}
	return o
}

func (w *workload) trimAudit() op.Op {
	next := uint64(len(w.m.audit.records)) + 1
	first := w.m.audit.first + w.rng.Uint64N(next-w.m.audit.first+1)
	if w.chance(5) { // before the first record, or beyond the last
		first = 1 + w.rng.Uint64N(next+2)
	}
	return &op.TrimAudit{Meta: &op.Meta{Principal: "duty"}, FirstSeq: first}
}
