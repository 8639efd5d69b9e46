package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/router"
	"github.com/corvo/corvo/dataplane/server/convert"
)

// DefaultReadWait is how long a read waits to become as fresh as it must be.
const DefaultReadWait = 5 * time.Second

// freshness is how fresh a read must be.
type freshness struct {
	strong   bool       // every write acknowledged before, by any node
	eventual bool       // whatever the view has
	least    []position // at least these
}

// freshness reads ?consistency= and ?min_index=.
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
		return out, api.Errorf(api.ValidationError, "consistency %s: use strong or eventual, or leave it out", convert.Excerpt(word))
	}
	if text := query.Get("min_index"); text != "" {
		var err error
		if out.least, err = decodeIndex(text, q.shards.Count()); err != nil {
			return out, err
		}
	}
	return out, nil
}

// on is the least position of a shard.
func (f freshness) on(c *cell.Cell) cell.Index {
	for _, p := range f.least {
		if p.shard == c.Shard() {
			return p.index
		}
	}
	return 0
}

// awaitState returns when the stores of the shards that are read are as fresh as
// the request asks.
func (s *Server) awaitState(r *http.Request, q *request, read ...*cell.Cell) error {
	f, err := q.freshness(r)
	if err != nil || !f.strong && f.least == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.ReadWait)
	defer cancel()
	return f.awaitState(ctx, q, read)
}

// atHome begins a read of what lies on the home shard, as fresh as the request asks.
func (s *Server) atHome(r *http.Request) (q request, home *cell.Cell, err error) {
	if q, err = s.begin(r, nil); err != nil {
		return q, nil, err
	}
	home = q.shards.Home()
	return q, home, s.awaitState(r, &q, home)
}

// awaitState waits for every position that is named, of whichever shard: what was
// written there may be why this is read.
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
		c := q.shards.All()[p.shard]
		if p.index <= c.Applied() {
			continue
		}
		// The view follows the store: when it has the entry, so has the store.
		if err := c.View().Wait(ctx, uint64(p.index)); err != nil {
			return err
		}
	}
	return nil
}

// awaitView returns when the views of the shards are as fresh as the request asks:
// unless it says otherwise, they show all that their stores had when the request
// came.
func (s *Server) awaitView(r *http.Request, q *request, read ...*cell.Cell) error {
	f, err := q.freshness(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.ReadWait)
	defer cancel()
	if err := f.awaitState(ctx, q, read); err != nil {
		return err
	}
	return router.Scatter(len(read), func(i int) error {
		index := f.on(read[i])
		if !f.eventual {
			index = max(index, read[i].Applied())
		}
		if index == 0 {
			return nil
		}
		return read[i].View().Wait(ctx, uint64(index))
	})
}

// awaitPresent returns when the stores of the shards have every write acknowledged
// before, by any node: what is there now decides whether it may change.
func (s *Server) awaitPresent(r *http.Request, q *request, read ...*cell.Cell) error {
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.ReadWait)
	defer cancel()
	return freshness{strong: true}.awaitState(ctx, q, read)
}

// awaitWritten returns when the shard's view shows all that is applied here: what a
// write answers is then read from it, in whatever time that takes.
func (s *Server) awaitWritten(r *http.Request, c *cell.Cell) error {
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.ReadWait)
	defer cancel()
	return c.View().Wait(ctx, uint64(c.Applied()))
}

// awaitJob is the shard a job is on, as fresh as the request asks, and those it
// has left as well.
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

// unverified is the error of a strong read as clients see it.
func unverified(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e := api.Wrap(err, api.ViewBehind, "this node could not make sure in time that it has every write: try again, or read without consistency=strong")
		e.RetryAfter = time.Second
		return e
	}
	return again(err)
}
