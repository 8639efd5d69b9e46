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

// items is a request for one or more jobs, each independent of the others. Its op has one result of type T
// for each job.
type items[T any] struct {
	ids []job.ID
	// propose commits one op for the items at the positions in at (nil: all). As far as this node knows, the
	// jobs of these items lie on c. propose returns one result for each.
	propose func(c *cell.Cell, at []int) ([]T, position, error)
	// refusal returns the refusal of an item, or nil.
	refusal func(T) *op.Refusal

	results []T
	errs    []error      // by position: the error instead of a result; with one shard settle returns the error
	asked   []*cell.Cell // by position: the cell that was last asked for the job; nil with one shard
	at      []position   // the positions of the writes; nil if no shard committed
}

// settle proposes the items on the shards of their jobs, and leaves the error of a single item in errs. If a
// job has moved to another shard without this node's knowledge, the old shard answers NOT_FOUND. By then this
// node usually knows the new shard, and settle asks that shard.
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

// settleHome proposes all items on the only shard.
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

// round proposes each pending item on the shard that this node knows for its job, unless that shard was asked
// last. It returns the items that were not found there, whose jobs may have moved on.
func (x *items[T]) round(q *request, pending []int) (again []int, err error) {
	var known []int
	for _, i := range pending {
		c, err := q.shards.OfJob(x.ids[i])
		switch {
		case err != nil:
			x.errs[i] = err
		case c == x.asked[i]: // no other shard has it
		case x.asked[i] != nil && !q.mayStill(c, x.ids[i]):
			x.errs[i] = noJob(x.ids[i].String())
		default:
			x.asked[i] = c
			known = append(known, i)
		}
	}
	parts := router.Split(len(known), func(k int) *cell.Cell { return x.asked[known[k]] })
	if len(parts) > 1 && q.meta.Idempotency != nil {
		return nil, api.Errorf(api.CrossShard, "an Idempotency-Key works on one shard, and the jobs of the request are on %d: send the request without a key, because a job settles only once, or send one request for each queue", len(parts))
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

// one proposes a request for one job, sets the position in the header and returns the result or the refusal.
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

// proposeOnce proposes an op on a shard, or returns the remembered result if an earlier try of the request
// used the same Idempotency-Key on another shard.
func proposeOnce[R any](s *Server, r *http.Request, q *request, c *cell.Cell, o op.Op) (R, position, error) {
	if before, at, err := rememberedElsewhere[R](q, c, o); at != nil || err != nil {
		if err != nil {
			return before, position{}, err
		}
		q.applied()
		return before, positionOf(at), nil
	}
	result, at, err := propose[R](r.Context(), s, c, q.ordered(o))
	if at != 0 {
		q.applied()
	}
	return result, position{c.Shard(), at}, err
}

// pick returns the elements of a list at the given positions; nil means all.
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
