package host

import (
	"context"
	"sync/atomic"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/op"
)

// shardProposers connects the shards of a namespace with each other. Every member has all shards, so a shard's
// leader finds the others in its own process: it proposes an op for another shard to the cell there, which
// forwards the op if another member leads that shard. shardProposers implements sinks.Shards.
type shardProposers struct {
	cells []atomic.Pointer[cell.Cell] // by shard; nil until it is open
}

func newShardProposers(shards int) *shardProposers {
	return &shardProposers{cells: make([]atomic.Pointer[cell.Cell], shards)}
}

// connect records that a cell is open.
func (o *shardProposers) connect(c *cell.Cell) { o.cells[c.Shard()].Store(c) }

// Propose proposes an op on a shard, whichever member leads it.
func (o *shardProposers) Propose(ctx context.Context, shard uint32, of op.Op) (op.Result, error) {
	if int(shard) >= len(o.cells) {
		return nil, api.Errorf(api.Internal, "there is no shard %d: the namespace has %d", shard, len(o.cells))
	}
	c := o.cells[shard].Load()
	if c == nil {
		return nil, notOpen()
	}
	result, _, err := cell.Propose[op.Result](ctx, c, of)
	return result, err
}
