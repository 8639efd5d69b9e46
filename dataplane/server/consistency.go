package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/server/convert"
)

// DefaultReadWait is how long a read waits to become as fresh as it must be.
const DefaultReadWait = 5 * time.Second

// freshness is how fresh a read must be.
type freshness struct {
	strong   bool       // every write acknowledged before, by any node
	eventual bool       // whatever the view has
	minIndex cell.Index // at least this
}

// freshnessOf reads ?consistency= and ?min_index=.
func freshnessOf(r *http.Request) (freshness, error) {
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
		if out.minIndex, err = decodeIndex(text); err != nil {
			return out, err
		}
	}
	return out, nil
}

// awaitState returns when the cell's store is as fresh as the request asks.
func (s *Server) awaitState(r *http.Request, c *cell.Cell) error {
	f, err := freshnessOf(r)
	if err != nil || !f.strong && f.minIndex == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.ReadWait)
	defer cancel()
	return f.awaitState(ctx, c)
}

func (f freshness) awaitState(ctx context.Context, c *cell.Cell) error {
	if f.strong {
		if err := c.Verify(ctx); err != nil {
			return unverified(ctx, err)
		}
	}
	if f.minIndex > c.Applied() {
		// The view follows the store: when it has the entry, so has the store.
		return c.View().Wait(ctx, uint64(f.minIndex))
	}
	return nil
}

// awaitView returns when the cell's view is as fresh as the request asks: unless
// it says otherwise, it shows all that the store had when the request came.
func (s *Server) awaitView(r *http.Request, c *cell.Cell) error {
	f, err := freshnessOf(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.ReadWait)
	defer cancel()
	if err := f.awaitState(ctx, c); err != nil {
		return err
	}
	index := max(c.Applied(), f.minIndex)
	if f.eventual {
		index = f.minIndex
	}
	if index == 0 {
		return nil
	}
	return c.View().Wait(ctx, uint64(index))
}

// unverified is the error of a strong read as clients see it.
func unverified(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e := api.Wrap(err, api.ViewBehind, "this node could not make sure in time that it has every write: try again, or read without consistency=strong")
		e.RetryAfter = time.Second
		return e
	}
	return err
}
