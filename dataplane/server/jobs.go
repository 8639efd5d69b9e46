package server

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/view"
	"github.com/corvo/corvo/tenancy"
)

func (s *Server) getJob(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	if err := s.awaitState(r, q.cell); err != nil {
		return err
	}
	id, err := q.find(r.PathValue("id"))
	if err != nil {
		return err
	}
	// The record and its blobs as of one moment.
	snapshot := q.cell.State().Snapshot()
	defer snapshot.Close()
	doc, err := view.Read(snapshot, id)
	if err != nil {
		return err
	}
	if doc == nil {
		return noJob(id.String())
	}
	return serve.WriteJSON(w, http.StatusOK, doc)
}

func (s *Server) searchJobs(w http.ResponseWriter, r *http.Request) error {
	began := time.Now()
	var body convert.SearchBody
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	var f convert.Faults
	asked := convert.FromSearch(&f, &body)
	if err := f.Err(); err != nil {
		return err
	}
	query := toQuery(asked)
	if query.Queue != "" {
		if err := q.allow(tenancy.JobRead, query.Queue); err != nil {
			return err
		}
	}
	if err := s.awaitView(r, q.cell); err != nil {
		return err
	}
	if query.Queue == "" {
		if query.Queues, err = q.scope(r.Context()); err != nil {
			return err
		}
	}
	page, err := q.cell.View().Search(r.Context(), query)
	if err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, toSearch(page, time.Since(began)))
}

// scope are the queues the caller may see, of those the view knows; nil is every
// queue.
func (q *request) scope(ctx context.Context) ([]string, error) {
	if len(q.who.QueueScope) == 0 {
		return nil, nil
	}
	names, err := q.cell.View().QueueNames(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(names, func(name string) bool { return !q.who.Covers(name) }), nil
}

func toQuery(s convert.Search) view.Query {
	q := view.Query{Queue: s.Queue, States: s.States, IDPrefix: s.IDPrefix, Order: view.Descending, Limit: s.Limit, Cursor: s.Cursor}
	if s.Ascending {
		q.Order = view.Ascending
	}
	return q
}

func toSearch(p view.Page, took time.Duration) api.SearchResponse {
	out := api.SearchResponse{
		Jobs:            p.Jobs,
		Total:           p.Total,
		TotalIsEstimate: p.TotalIsEstimate,
		Cursor:          p.Cursor,
		HasMore:         p.HasMore,
		DurationMs:      took.Milliseconds(),
	}
	if out.Jobs == nil {
		out.Jobs = []api.Job{}
	}
	return out
}
