package server

import (
	"fmt"
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/router"
)

// items are what a request asks of several jobs, each on its own, in a kind of op
// whose results are T.
type items[T any] struct {
	ids []job.ID
	// propose makes the op of the items at these positions (nil: of all), which lie on
	// the cell, and has it committed: one result for each.
	propose func(c *cell.Cell, at []int) ([]T, position, error)
	// refusal is why an item was refused; nil where it was not.
	refusal func(T) *op.Refusal

	results []T
	errs    []error      // by position: why there is no result
	asked   []*cell.Cell // by position: where the job was looked for last; nil of one shard
	at      []position   // of what was written
}

// settle proposes the items where their jobs are. A job that has gone to another
// shard without this node's knowledge is NOT_FOUND where it is looked for, and by
// then this node knows where it went: it is looked for there.
func (x *items[T]) settle(q *request) error {
	if q.shards.Count() == 1 {
		return x.settleHome(q)
	}
	x.results, x.errs = make([]T, len(x.ids)), make([]error, len(x.ids))
	pending := make([]int, len(x.ids))
	for i := range pending {
		pending[i] = i
	}
	x.asked = make([]*cell.Cell, len(x.ids))
	for range q.shards.Count() {
		var err error
		if pending, err = x.round(q, pending); err != nil || len(pending) == 0 {
			return err
		}
	}
	return nil
}

// settleHome is settle where there is one shard.
func (x *items[T]) settleHome(q *request) error {
	results, at, err := x.propose(q.shards.Home(), nil)
	if err != nil {
		return err
	}
	if len(results) != len(x.ids) {
		return fmt.Errorf("an op on %d jobs has %d results", len(x.ids), len(results))
	}
	x.results, x.errs, x.at = results, make([]error, len(x.ids)), []position{at}
	return nil
}

// round proposes the pending items whose jobs are not where they were asked for
// before, and returns those that may have gone on.
func (x *items[T]) round(q *request, pending []int) (again []int, err error) {
	var known []int
	for _, i := range pending {
		c, err := q.shards.OfJob(x.ids[i])
		switch {
		case err != nil:
			x.errs[i] = err
		case c == x.asked[i]: // it is nowhere else
		case x.asked[i] != nil && !q.mayStill(c, x.ids[i]):
			x.errs[i] = noJob(x.ids[i].String())
		default:
			x.asked[i] = c
			known = append(known, i)
		}
	}
	parts := router.Split(len(known), func(k int) *cell.Cell { return x.asked[known[k]] })
	if len(parts) > 1 && q.meta.Idempotency != nil {
		return nil, api.Errorf(api.CrossShard, "a request with an Idempotency-Key is remembered on one shard, and its jobs lie on %d: send one without a key, for a job is settled once whoever asks, or send a request for each queue", len(parts))
	}
	positions := make([]position, len(parts))
	failures := router.Collect(len(parts), func(p int) (err error) {
		part := parts[p]
		for k, at := range part.At {
			part.At[k] = known[at]
		}
		positions[p], err = x.commit(part)
		return err
	})
	for p, part := range parts {
		if failures[p] == nil {
			x.at = later(x.at, positions[p])
		}
		for _, i := range part.At {
			x.errs[i] = failures[p]
			if failures[p] == nil && api.Code(x.refusal(x.results[i]).GetCode()) == api.NotFound {
				again = append(again, i)
			}
		}
	}
	return again, nil
}

func (x *items[T]) commit(part router.Part) (position, error) {
	results, at, err := x.propose(part.Cell, part.At)
	if err != nil {
		return at, err
	}
	if len(results) != len(part.At) {
		return at, fmt.Errorf("an op on %d jobs has %d results", len(part.At), len(results))
	}
	for k, i := range part.At {
		x.results[i] = results[k]
	}
	return at, nil
}

// one is the result of a request for one job.
func (x *items[T]) one(w http.ResponseWriter, r *http.Request, q *request) (result T, err error) {
	if err := x.settle(q); err != nil {
		return result, err
	}
	if x.errs[0] != nil {
		return result, x.errs[0]
	}
	setIndex(w, x.at...)
	refused := x.refusal(x.results[0])
	if api.Code(refused.GetCode()) == api.NotFound && q.shards.Count() > 1 {
		return result, q.absent(r, x.ids[0])
	}
	return x.results[0], refused.Err()
}

// proposeItems proposes an op on a shard, or finds what an earlier request with its
// key did on another.
func proposeItems[R any](s *Server, r *http.Request, q *request, c *cell.Cell, o op.Op) (R, position, error) {
	if before, at, err := elsewhere[R](q, c, o); at != nil || err != nil {
		if err != nil {
			return before, position{}, err
		}
		q.applied()
		return before, positionOf(at), nil
	}
	result, at, err := propose[R](r.Context(), s, c, q.inTurn(o))
	if at != 0 {
		q.applied()
	}
	return result, position{c.Shard(), at}, err
}

// mayStill says whether the caller may touch a job that has turned up on a shard.
func (q *request) mayStill(c *cell.Cell, id job.ID) bool {
	if len(q.who.QueueScope) == 0 {
		return true
	}
	j, err := c.State().Job(id)
	return err == nil && j != nil && q.who.Covers(j.Queue)
}

// pick are the elements of a list at some positions; nil: all.
func pick[T any](list []T, at []int) []T {
	if at == nil {
		return list
	}
	some := make([]T, len(at))
	for k, i := range at {
		some[k] = list[i]
	}
	return some
}
