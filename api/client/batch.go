package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/corvo/corvo/api"
)

func batchPath(id, action string) string { return "/api/v1/batches/" + url.PathEscape(id) + action }

// CreateBatch creates a batch and its first members, either all or none. The error is CROSS_SHARD if their
// queues, or the parent batch, lie on different shards. It is STATE_CONFLICT if the parent is sealed, and
// CONFLICT if the parent is full or too many batches lie above it. The other errors are those of
// EnqueueBatch.
func (c *Client) CreateBatch(ctx context.Context, batch api.NewBatch, jobs []api.EnqueueRequest) (api.EnqueueBatchResponse, error) {
	var out api.EnqueueBatchResponse
	req := api.EnqueueBatchRequest{Jobs: jobs, Batch: &batch}
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/api/v1/enqueue/batch", body: req, out: &out, repeat: repeatKeyed})
	return out, err
}

// AddToBatch creates more members of an open batch, either all or none. The error is STATE_CONFLICT if the
// batch is sealed, CONFLICT if it would have too many members, and CROSS_SHARD if a queue lies on another
// shard than the batch. The other errors are those of EnqueueBatch.
func (c *Client) AddToBatch(ctx context.Context, id string, jobs []api.EnqueueRequest) (api.EnqueueBatchResponse, error) {
	var out api.EnqueueBatchResponse
	_, err := c.do(ctx, call{method: http.MethodPost, path: batchPath(id, "/jobs"), body: api.AddToBatchRequest{Jobs: jobs}, out: &out, repeat: repeatKeyed})
	return out, err
}

// SealBatch closes a batch, which is then complete as soon as all members have settled. Sealing it again is
// no error.
func (c *Client) SealBatch(ctx context.Context, id string) (api.Batch, error) {
	var out api.Batch
	_, err := c.do(ctx, call{method: http.MethodPost, path: batchPath(id, "/seal"), out: &out, repeat: repeatKeyed})
	return out, err
}

// Batch returns a batch with the counts of its members.
func (c *Client) Batch(ctx context.Context, id string, r Read) (api.Batch, error) {
	var out api.Batch
	_, err := c.do(ctx, call{method: http.MethodGet, path: batchPath(id, "") + r.query(), out: &out, repeat: repeatAlways})
	return out, err
}
