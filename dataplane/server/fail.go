package server

import (
	"fmt"
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server/convert"
)

func (s *Server) fail(w http.ResponseWriter, r *http.Request) error {
	var body api.FailRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	id, err := q.find(r.PathValue("job_id"))
	if err != nil {
		return err
	}
	var f convert.Faults
	item := convert.FromFail(&f, id, &body)
	if err := f.Err(); err != nil {
		return err
	}
	result, err := commit[*op.FailResult](s, w, r, q.cell, &op.Fail{Meta: q.meta, Items: []*op.FailItem{item}})
	if err != nil {
		return err
	}
	if len(result.Items) != 1 {
		return fmt.Errorf("a fail of one job has %d results", len(result.Items))
	}
	if err := result.Items[0].GetRefusal().Err(); err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, convert.ToFailed(result.Items[0]))
}
