package server

import (
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/telemetry"
)

func (s *Server) fail(w http.ResponseWriter, r *http.Request) error {
	var body api.FailRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	failed, err := s.failJob(w, r, &q, r.PathValue("job_id"), &body)
	if err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, convert.ToFailed(failed))
}

// failJob proposes that the attempt of one job ends without success.
func (s *Server) failJob(w http.ResponseWriter, r *http.Request, q *request, name string, body *api.FailRequest) (*op.Failed, error) {
	id, j, err := q.lookUp(r, name, telemetry.Sampled(r.Context()))
	if err != nil {
		return nil, err
	}
	var f convert.Faults
	item := convert.FromFail(&f, id, body)
	if err := f.Err(); err != nil {
		return nil, err
	}
	r, span := q.beginSettle(r, telemetry.SpanFail, id, j, item.Usage)
	failed, err := s.commitFail(w, r, q, item)
	if err == nil {
		span.became(failed.State.Word())
	}
	span.end(err)
	return failed, err
}

func (s *Server) commitFail(w http.ResponseWriter, r *http.Request, q *request, item *op.FailItem) (*op.Failed, error) {
	q.meta.RequestId = q.shards.Home().RequestID()
	settled := &items[*op.Failed]{
		ids: []job.ID{job.ID(item.Proof.Id)},
		propose: func(c *cell.Cell, _ []int) ([]*op.Failed, position, error) {
			result, at, err := proposeOnce[*op.FailResult](s, r, q, c, &op.Fail{Meta: q.meta, Items: []*op.FailItem{item}})
			failed := result.GetItems()
			s.markSeen(q, min(1, len(failed)), func(int) (*op.LeaseProof, *op.Refusal) { return item.Proof, failed[0].GetRefusal() })
			return failed, at, err
		},
		refusal: (*op.Failed).GetRefusal,
	}
	return settled.one(w, r, q)
}
