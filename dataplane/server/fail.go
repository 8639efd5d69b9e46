package server

import (
	"fmt"
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
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
	id, j, err := q.look(r.PathValue("job_id"), telemetry.Sampled(r.Context()))
	if err != nil {
		return err
	}
	var f convert.Faults
	item := convert.FromFail(&f, id, &body)
	if err := f.Err(); err != nil {
		return err
	}
	r, span := q.beginSettle(r, telemetry.SpanFail, id, j, item.Usage)
	failed, err := s.commitFail(w, r, &q, item)
	if err == nil {
		span.became(failed.State.Word())
	}
	span.end(err)
	if err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, convert.ToFailed(failed))
}

func (s *Server) commitFail(w http.ResponseWriter, r *http.Request, q *request, item *op.FailItem) (*op.Failed, error) {
	result, err := commit[*op.FailResult](s, w, r, q.cell, &op.Fail{Meta: q.meta, Items: []*op.FailItem{item}})
	if err != nil {
		return nil, err
	}
	if len(result.Items) != 1 {
		return nil, fmt.Errorf("a fail of one job has %d results", len(result.Items))
	}
	if err := result.Items[0].GetRefusal().Err(); err != nil {
		return nil, err
	}
	return result.Items[0], nil
}
