package server

import (
	"net/http"
	"time"

	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/view"
)

// wordsPage lists the query parameters of a full-text search.
var wordsPage = append([]serve.Param{
	{Name: "q", Doc: "words, \"phrases\" and prefixes* that must all occur"},
	{Name: "limit", Type: "integer", Doc: "jobs on a page; default 50"},
	{Name: "cursor", Doc: "cursor of the next page, from the answer before"},
}, read...)

// searchWords answers with a page of the jobs whose payload, tags and queue name together contain all the
// words and phrases, the last created first. A word that is a whole job id stands for that job.
func (s *Server) searchWords(w http.ResponseWriter, r *http.Request) error {
	began := time.Now()
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	var f convert.Faults
	limit := convert.FromLimit(&f, r.URL.Query())
	if err := f.Err(); err != nil {
		return err
	}
	query, err := view.ParseWords(r.URL.Query().Get("q"), limit, r.URL.Query().Get("cursor"))
	if err != nil {
		return err
	}
	return s.answerSearch(w, r, &q, query, began)
}
