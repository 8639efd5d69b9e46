package server

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/router"
	"github.com/corvo/corvo/dataplane/view"
	"github.com/corvo/corvo/tenancy"
)

func (s *Server) searchJobs(w http.ResponseWriter, r *http.Request) error {
	began := time.Now()
	var body api.SearchRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	query, err := view.ParseSearch(body)
	if err != nil {
		return err
	}
	return s.answerSearch(w, r, &q, query, began)
}

// answerSearch answers one page of a search, as fresh as the request asks. The error is FORBIDDEN if the
// search names a queue that the caller may not see. A search without a queue finds the jobs of all queues
// that the caller may see.
func (s *Server) answerSearch(w http.ResponseWriter, r *http.Request, q *request, query view.Query, began time.Time) error {
	cells := q.shards.All()
	if query.Queue != "" {
		if err := q.allow(tenancy.JobRead, query.Queue); err != nil {
			return err
		}
		at := q.shards.Of(query.Queue)
		cells = []*cell.Cell{at}
	}
	age, err := s.awaitView(w, r, q, cells...)
	if err != nil {
		return err
	}
	asOf := age.asOf(s.cfg.Now())
	page, err := q.search(r.Context(), cells, query)
	if err != nil {
		return err
	}
	out := toSearch(page, time.Since(began))
	out.AsOf = asOf
	return serve.WriteJSON(w, http.StatusOK, out)
}

// search queries the shards. With one shard it uses the shard's own cursor. With several it uses a cursor
// that contains the cursors of the shards with further jobs.
func (q *request) search(ctx context.Context, cells []*cell.Cell, query view.Query) (view.Page, error) {
	if len(cells) == 1 {
		return q.searchShard(ctx, cells[0], query)
	}
	from, err := parseCursors(query.Cursor, cells)
	if err != nil {
		return view.Page{}, err
	}
	pages := make([]view.Page, len(from))
	err = router.Scatter(len(from), func(i int) (err error) {
		one := query
		one.Cursor = from[i].text
		if from[i].over { // its jobs still count in the total
			one.Cursor, one.Limit = "", 1
		}
		pages[i], err = q.searchShard(ctx, from[i].cell, one)
		return err
	})
	if err != nil {
		return view.Page{}, err
	}
	return mergePages(query, from, pages), nil
}

func (q *request) searchShard(ctx context.Context, c *cell.Cell, query view.Query) (view.Page, error) {
	if query.Queue == "" {
		var err error
		if query.Queues, err = q.scope(ctx, c); err != nil {
			return view.Page{}, err
		}
	}
	return c.View().Search(ctx, query)
}

// scope returns the queues of a shard that its view knows and the caller may see; nil means every queue, an
// empty list none.
func (q *request) scope(ctx context.Context, c *cell.Cell) ([]string, error) {
	if len(q.who.QueueScope) == 0 {
		return nil, nil
	}
	names, err := c.View().QueueNames(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(names, func(name string) bool { return !q.who.Covers(name) }), nil
}

func toSearch(p view.Page, took time.Duration) api.SearchResponse {
	out := api.SearchResponse{
		Jobs:            p.Jobs,
		Total:           p.Total,
		TotalIsEstimate: p.TotalIsEstimate,
		Cursor:          p.Cursor,
		HasMore:         p.HasMore,
		DurationMs:      took.Milliseconds(),
		Partial:         p.Partial,
		PartialReason:   p.PartialReason,
	}
	if out.Jobs == nil {
		out.Jobs = []api.Job{}
	}
	return out
}
