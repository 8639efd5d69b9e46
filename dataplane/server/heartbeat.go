package server

import (
	"crypto/sha256"
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server/convert"
)

func (s *Server) heartbeat(w http.ResponseWriter, r *http.Request) error {
	var body api.HeartbeatRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	out, err := s.beat(w, r, &q, &body)
	if err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, out)
}

// beat renews the leases of a heartbeat and stores its checkpoints, progress and usage.
func (s *Server) beat(w http.ResponseWriter, r *http.Request, q *request, body *api.HeartbeatRequest) (out api.HeartbeatResponse, err error) {
	var f convert.Faults
	beats := convert.FromHeartbeat(&f, body)
	if err := f.Err(); err != nil {
		return out, err
	}
	s.reported(q, body)
	var ids []job.ID
	renewals := make([]*op.HeartbeatItem, 0, len(beats))
	for i := range beats {
		b := &beats[i]
		if b.Item == nil {
			continue
		}
		seen, err := q.sees(r, b.ID)
		if err != nil {
			return out, err
		}
		if seen {
			ids, renewals = append(ids, b.ID), append(renewals, b.Item)
		} else {
			b.Item = nil
		}
	}
	q.meta.RequestId = reportID(body.ReportID)
	result, err := s.renew(w, r, q, ids, renewals)
	if err != nil {
		return out, err
	}
	return convert.ToHeartbeat(beats, result), nil
}

// reportID derives the request id of a heartbeat from the client's report id, so that a repeat is recognised.
// It returns nil if the client sent none.
func reportID(given string) []byte {
	if given == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(given))
	return sum[:16]
}

// renew renews leases, each independently. If a shard cannot be asked, the state of its leases is unknown,
// and the answer has no form for that. The whole heartbeat then fails, and the client's repeat renews the
// leases on the other shards once more.
func (s *Server) renew(w http.ResponseWriter, r *http.Request, q *request, ids []job.ID, all []*op.HeartbeatItem) (*op.HeartbeatResult, error) {
	if len(ids) == 0 {
		setIndex(w, positionOf(q.shards.Home()))
		return &op.HeartbeatResult{}, nil
	}
	if q.meta.RequestId == nil {
		q.meta.RequestId = q.shards.Home().RequestID()
	}
	settled := &items[renewed]{
		ids: ids,
		propose: func(c *cell.Cell, at []int) ([]renewed, position, error) {
			beats := pick(all, at)
			result, where, err := proposeOnce[*op.HeartbeatResult](s, r, q, c, &op.Heartbeat{Meta: q.meta, Items: beats})
			s.markSeen(q, min(len(beats), len(result.GetItems())), func(i int) (*op.LeaseProof, *op.Refusal) { return beats[i].Proof, result.Items[i] })
			return renewedJobs(result), where, err
		},
		refusal: func(one renewed) *op.Refusal { return one.refused },
	}
	if err := settled.settle(q); err != nil {
		return nil, err
	}
	for _, err := range settled.errs {
		if err != nil {
			return nil, err
		}
	}
	setIndex(w, settled.at...)
	return joined(settled.results), nil
}

// renewed is the answer of a heartbeat for one job.
type renewed struct {
	refused *op.Refusal
	cancel  bool // the worker must stop the job
	over    bool // the job has cost more than its budgets have room for
}

// renewedJobs splits the answer of one shard by job.
func renewedJobs(r *op.HeartbeatResult) []renewed {
	all := make([]renewed, len(r.GetItems()))
	for i, refused := range r.GetItems() {
		all[i].refused = refused
	}
	for _, at := range r.GetCancel() {
		all[at].cancel = true
	}
	for _, at := range r.GetOverBudget() {
		all[at].over = true
	}
	return all
}

// joined builds one answer from the answers for each job.
func joined(all []renewed) *op.HeartbeatResult {
	r := &op.HeartbeatResult{Items: make([]*op.Refusal, len(all))}
	for i, one := range all {
		r.Items[i] = one.refused
		if one.cancel {
			r.Cancel = append(r.Cancel, uint32(i))
		}
		if one.over {
			r.OverBudget = append(r.OverBudget, uint32(i))
		}
	}
	return r
}
