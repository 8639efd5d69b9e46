package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/router"
)

const (
	// DefaultReadWait is the longest wait of a read that asks for freshness.
	DefaultReadWait = 5 * time.Second
	// DefaultFreshWait is the longest time that a read which asks for no freshness waits for the view to
	// reach the node's state.
	DefaultFreshWait = 2 * time.Second
)

// freshness is the required freshness of a read.
type freshness struct {
	strong   bool       // every write that any node acknowledged before the read
	eventual bool       // the view as it is
	least    []position // at least these positions
}

// freshness parses ?consistency= and ?min_index=.
func (q *request) freshness(r *http.Request) (freshness, error) {
	if r.URL.RawQuery == "" {
		return freshness{}, nil
	}
	var out freshness
	query := r.URL.Query()
	switch word := query.Get("consistency"); word {
	case "":
	case "strong":
		out.strong = true
	case "eventual":
		out.eventual = true
	default:
		return out, api.Errorf(api.ValidationError, "consistency %s: use strong or eventual, or leave it out", text.Quote(word))
	}
	if given := query.Get("min_index"); given != "" {
		var err error
		if out.least, err = decodeIndex(given, q.shards.Count()); err != nil {
			return out, err
		}
	}
	return out, nil
}

// on returns the least position of a shard, or 0 if min_index names none.
func (f freshness) on(c *cell.Cell) cell.Index {
	for _, p := range f.least {
		if p.shard == c.Shard() {
			return p.index
		}
	}
	return 0
}

// awaitState waits until the stores of the given shards are as fresh as the request asks, or returns
// VIEW_BEHIND after Config.ReadWait.
func (s *Server) awaitState(r *http.Request, q *request, read ...*cell.Cell) error {
	f, err := q.freshness(r)
	if err != nil || !f.strong && f.least == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.ReadWait)
	defer cancel()
	return f.awaitState(ctx, q, read)
}

// atHome begins a read of data on the home shard, as fresh as the request asks.
func (s *Server) atHome(r *http.Request) (q request, home *cell.Cell, err error) {
	if q, err = s.begin(r, nil); err != nil {
		return q, nil, err
	}
	home = q.shards.Home()
	return q, home, s.awaitState(r, &q, home)
}

// awaitState waits until the given shards have every acknowledged write, if the read is strong. It also waits
// for every named position, even on shards that are not read, because a write there may be the reason for
// this read.
func (f freshness) awaitState(ctx context.Context, q *request, read []*cell.Cell) error {
	if f.strong {
		err := router.Scatter(len(read), func(i int) error {
			if err := read[i].Verify(ctx); err != nil {
				return unverified(ctx, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, p := range f.least {
		if err := q.shards.All()[p.shard].Engine().Await(ctx, uint64(p.index)); err != nil {
			return unreached(ctx, err)
		}
	}
	return nil
}

// awaitView waits until the views of the shards are as fresh as the request asks, and returns their age. It
// also sets the age as a header.
//
// With consistency=strong or min_index, the answer is VIEW_BEHIND if the views are not that fresh within
// Config.ReadWait. consistency=eventual takes the views as they are. A read that asks for no freshness waits
// until the views have all that the stores had when the read came, at most Config.FreshWait. After that time
// it takes the views as they are, because an operator needs an old list more than none. It takes a view that
// is already older than Config.FreshWait without waiting. A view that is still being built for the first time
// answers VIEW_BEHIND.
func (s *Server) awaitView(w http.ResponseWriter, r *http.Request, q *request, read ...*cell.Cell) (viewAge, error) {
	f, err := q.freshness(r)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.ReadWait)
	defer cancel()
	if err := f.awaitState(ctx, q, read); err != nil {
		return 0, err
	}
	if err := router.Scatter(len(read), func(i int) error { return s.freshen(ctx, f, read[i]) }); err != nil {
		return 0, err
	}
	return showAge(w, read...), nil
}

// freshen waits for the view of one shard, as awaitView describes.
func (s *Server) freshen(ctx context.Context, f freshness, c *cell.Cell) error {
	applied, least := c.Applied(), f.on(c)
	if f.strong {
		least = max(least, applied)
	}
	if least > 0 {
		if err := c.View().Wait(ctx, uint64(least)); err != nil {
			return err
		}
	}
	if f.eventual || applied <= least {
		return nil
	}
	return c.View().Approach(ctx, uint64(applied), s.cfg.FreshWait)
}

// awaitPresent waits until the stores of the given shards have every write that any node acknowledged before
// the request. Writes call it because the present state decides whether they are allowed, and backups because
// they must have these writes.
func (s *Server) awaitPresent(r *http.Request, q *request, read ...*cell.Cell) error {
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.ReadWait)
	defer cancel()
	return freshness{strong: true}.awaitState(ctx, q, read)
}

// awaitOwn waits until this node's store has the request's own write. Handlers call it before they read a
// part of the answer that only the store has. The engine has already waited for a forwarded write, but only
// for a moment.
func (s *Server) awaitOwn(ctx context.Context, q *request, written position) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ReadWait)
	defer cancel()
	err := q.shards.All()[written.shard].Engine().Await(ctx, uint64(written.index))
	if err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return again(err)
	}
	e := api.Wrap(err, api.ViewBehind, "the request was carried out, but this node has not caught up with it: repeat the request with the same idempotency key for its answer")
	e.RetryAfter = time.Second
	return e
}

// awaitJob returns the shard of a job, as fresh as the request asks. It follows a moved job through the
// shards that the job has left and waits for each of them.
func (s *Server) awaitJob(r *http.Request, q *request, id job.ID) (*cell.Cell, error) {
	f, err := q.freshness(r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.ReadWait)
	defer cancel()
	at := q.shards.Birth(id)
	for range q.shards.Count() {
		if err := f.awaitState(ctx, q, []*cell.Cell{at}); err != nil {
			return nil, err
		}
		now, err := q.shards.OfJob(id)
		if err != nil || now == at {
			return now, err
		}
		at = now
	}
	return nil, router.OnItsWay(id)
}

// unverified converts the error of a strong read for clients.
func unverified(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e := api.Wrap(err, api.ViewBehind, "this node could not confirm in time that it has every write: try again, or read without consistency=strong")
		e.RetryAfter = time.Second
		return e
	}
	return again(err)
}

// unreached converts the error of a read whose min_index the store has not reached in time.
func unreached(ctx context.Context, err error) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return again(err)
	}
	e := api.Wrap(err, api.ViewBehind, "this node has not caught up with min_index in time: try again, or read without min_index")
	e.RetryAfter = time.Second
	return e
}
