package cell

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/duties"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/dataplane/view"
	"github.com/corvo/corvo/tenancy"
)

// bulkViewTimeout bounds the wait for the view at the start of each part of a bulk operation.
const bulkViewTimeout = 5 * time.Second

// newBulks creates the component that runs this shard's parts of bulk operations while it leads.
func (c *Cell) newBulks() *duties.Bulks {
	return duties.NewBulks(duties.BulkConfig{
		Store: c.store,
		Propose: func(ctx context.Context, o *op.RunBulk) (*op.RunBulkResult, error) {
			result, _, err := Propose[*op.RunBulkResult](ctx, c, o)
			return result, err
		},
		Find: c.findBulk,
	})
}

// findBulk finds jobs of a part in this node's view.
func (c *Cell) findBulk(ctx context.Context, p *state.BulkPart, w *state.BulkWork, cursor string, limit int) (found duties.BulkFound, err error) {
	q, err := BulkQuery(w.Filter)
	if err != nil {
		return found, err
	}
	if cursor == "" {
		ctx, cancel := context.WithTimeout(ctx, bulkViewTimeout)
		defer cancel()
		if err := c.view.Wait(ctx, uint64(c.Applied())); err != nil {
			return found, err
		}
	}
	if len(p.Scope) > 0 && q.Queue == "" {
		names, err := c.view.QueueNames(ctx)
		if err != nil {
			return found, err
		}
		q.Queues = slices.DeleteFunc(names, func(name string) bool {
			return !slices.ContainsFunc(p.Scope, func(g string) bool { return tenancy.Glob(g).Match(name) })
		})
	}
	q.Order, q.Below, q.Cursor, q.Limit = view.Ascending, p.End, cursor, limit
	page, err := c.view.Find(ctx, q)
	return duties.BulkFound{IDs: page.IDs, Numbers: page.Numbers, Cursor: page.Cursor}, err
}

// BulkQuery decodes the stored filter of a bulk operation. It refuses unknown fields, because ignoring one
// would include jobs that were not meant.
func BulkQuery(filter []byte) (view.Query, error) {
	var f api.SearchFilter
	d := json.NewDecoder(bytes.NewReader(filter))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return view.Query{}, api.Wrap(err, api.ValidationError, "the filter is not one this version knows")
	}
	return view.ParseFilter(f)
}
