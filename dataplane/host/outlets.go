package host

import (
	"context"
	"sync/atomic"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/op"
)

// outlets are how the shards of a namespace reach each other. Each is on every
// member, so a shard's leader finds the others in its own process: what it sends is
// proposed there, and forwarded if they are led elsewhere. It is the shards' own
// sinks.Shards.
type outlets struct {
	cells []atomic.Pointer[cell.Cell] // by shard; nil until it is open
}

func newOutlets(shards int) *outlets {
	return &outlets{cells: make([]atomic.Pointer[cell.Cell], shards)}
}

// connect notes that a cell is open.
func (o *outlets) connect(c *cell.Cell) { o.cells[c.Shard()].Store(c) }

// Propose has a shard apply an op, wherever it is led.
func (o *outlets) Propose(ctx context.Context, shard uint32, of op.Op) (op.Result, error) {
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
