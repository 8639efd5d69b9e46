package server

import (
	"errors"
	"slices"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/router"
)

// elsewhere is what another shard than the one a request goes to remembers under
// the request's Idempotency-Key, and which shard that is: the key of a request for
// another queue, or for a job that has been moved since. It is as far as this node
// knows; on the shard itself the op decides.
func elsewhere[R any](q *request, c *cell.Cell, o op.Op) (result R, at *cell.Cell, err error) {
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

// together is the one shard of all the queues; CROSS_SHARD where there are several.
// why says what cannot be promised then.
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

// asError is err as a client may see it of one item; not ok where it is for the
// operator only.
func asError(err error) (*api.Error, bool) {
	if err == nil {
		return nil, false
	}
	var e *api.Error
	ok := errors.As(err, &e)
	return e, ok
}
