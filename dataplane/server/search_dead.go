package server

import (
	"net/http"
	"time"

	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/view"
)

// deadPage lists the query parameters of a page of dead jobs.
var deadPage = append([]serve.Param{
	{Name: "queue", Doc: "queue of the jobs; default all"},
	{Name: "limit", Type: "integer", Doc: "jobs on a page; default 50"},
	{Name: "cursor", Doc: "cursor of the next page, from the answer before"},
}, read...)

// deadJobs answers with a page of dead jobs, the last created first.
func (s *Server) deadJobs(w http.ResponseWriter, r *http.Request) error {
	began := time.Now()
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	var f convert.Faults
	asked := convert.FromDead(&f, r.URL.Query())
	if err := f.Err(); err != nil {
		return err
	}
	query, err := view.ParseSearch(asked)
	if err != nil {
		return err
	}
	return s.answerSearch(w, r, &q, query, began)
}
