package server

import (
	"errors"
	"net/http"
	"slices"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/router"
)

// rememberedElsewhere looks up the request's Idempotency-Key on all other shards, because an earlier request
// with the key may have been for another queue, or for a job that has moved since. It returns the remembered
// answer and its shard, or no shard if none remembers the key. The error is IDEMPOTENCY_MISMATCH if the key
// was used for another request. The lookup sees only this node's state. On the request's own shard the op
// itself checks the key.
func rememberedElsewhere[R any](q *request, c *cell.Cell, o op.Op) (result R, at *cell.Cell, err error) {
	if o.GetMeta().GetIdempotency() == nil || q.shards.Count() == 1 {
		return result, nil, nil
	}
	for _, other := range q.shards.All() {
		if other == c {
			continue
		}
		before, err := op.Remembered(other.State(), o, other.NowNs())
		if err != nil {
			return result, nil, err
		}
		if answered, ok := before.(R); ok && before != nil {
			return answered, other, nil
		}
	}
	return result, nil, nil
}

// commitEverywhere proposes an op on every shard in turn and sets the positions in the answer's header. build
// returns a new op for each shard. Each shard remembers the request's Idempotency-Key for itself, so after a
// failure a repeat of the request changes only the shards that have not done the op. A key that another request
// has used on some shard is refused before the first shard does the op, as far as this node knows the shards.
func commitEverywhere[R any](s *Server, w http.ResponseWriter, r *http.Request, q *request, build func() op.Op) error {
	for _, c := range q.shards.All() {
		if _, err := op.Remembered(c.State(), build(), c.NowNs()); err != nil {
			return err
		}
	}
	var written []position
	for _, c := range q.shards.All() {
		_, at, err := propose[R](r.Context(), s, c, q.ordered(build()))
		if at != 0 {
			q.applied()
		}
		if err != nil {
			return err
		}
		written = append(written, position{c.Shard(), at})
	}
	setIndex(w, written...)
	return nil
}

// together returns the one shard of all queues, the home shard if there are no queues, or CROSS_SHARD if they
// lie on several. why names the guarantee that several shards cannot give.
func (q *request) together(queues []string, why string) (*cell.Cell, error) {
	if q.shards.Count() == 1 || len(queues) == 0 {
		return q.shards.Home(), nil
	}
	parts := router.Split(len(queues), func(i int) *cell.Cell { return q.shards.Of(queues[i]) })
	if len(parts) == 1 {
		return parts[0].Cell, nil
	}
	byShard := make([][]string, len(parts))
	for p, part := range parts {
		for _, i := range part.At {
			byShard[p] = append(byShard[p], queues[i])
		}
		slices.Sort(byShard[p])
		byShard[p] = slices.Compact(byShard[p])
	}
	err := api.Errorf(api.CrossShard, "%s, and queues %s and %s lie on different shards: send a request for each of the groups in details.queues", why, byShard[0][0], byShard[1][0])
	err.Details = map[string]any{"queues": byShard}
	return nil, err
}

// asError returns err as the client may see it for one item. It returns false for nil and for an error that
// only the operator may see.
func asError(err error) (*api.Error, bool) {
	if err == nil {
		return nil, false
	}
	var e *api.Error
	ok := errors.As(err, &e)
	return e, ok
}
