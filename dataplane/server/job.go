package server

import (
	"net/http"

	"github.com/corvo/corvo/api/serve"
)

func (s *Server) getJob(w http.ResponseWriter, r *http.Request) error {
	q, id, at, err := s.jobAt(r)
	if err != nil {
		return err
	}
	doc, err := readJob(at, id)
	if err != nil {
		return err
	}
	if doc == nil {
		return q.absent(r, id)
	}
	if !q.who.Covers(doc.Queue) {
		return noJob(id.String())
	}
	return serve.WriteJSON(w, http.StatusOK, doc)
}
