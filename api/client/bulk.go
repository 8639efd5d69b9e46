package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/corvo/corvo/api"
)

// bulkWait is the longest time that the server waits for the end of an operation.
const bulkWait = 20 * time.Second

// Bulk applies one action to many jobs. If the operation has ended before the response, ended has its result.
// If it continues, because it takes long or the request sets Async, started has its id. The other result is
// nil. If the operation has failed, the error is INTERNAL. It is CONFLICT if the jobs should move to a queue
// that is being deleted, and INVALID_FILTER if the filter's jq expression is invalid.
func (c *Client) Bulk(ctx context.Context, b api.BulkRequest) (ended *api.BulkResponse, started *api.BulkStarted, err error) {
	var answer json.RawMessage
	status, err := c.do(ctx, call{method: http.MethodPost, path: "/api/v1/jobs/bulk", body: b, out: &answer, repeat: repeatKeyed, wait: bulkWait})
	if err != nil {
		return nil, nil, err
	}
	if status == http.StatusAccepted {
		started = &api.BulkStarted{}
		return nil, started, json.Unmarshal(answer, started)
	}
	ended = &api.BulkResponse{}
	return ended, nil, json.Unmarshal(answer, ended)
}

// BulkOperation returns the present state of a bulk operation.
func (c *Client) BulkOperation(ctx context.Context, id string) (api.Bulk, error) {
	var out api.Bulk
	_, err := c.do(ctx, call{method: http.MethodGet, path: bulkPath(id), out: &out, repeat: repeatAlways})
	return out, err
}

// CancelBulk cancels a bulk operation; jobs that it has changed stay changed. The status is "cancelled", or
// "cancelling" if some shards have not confirmed it yet. The error is STATE_CONFLICT if the operation has
// ended without a cancellation.
func (c *Client) CancelBulk(ctx context.Context, id string) (status string, err error) {
	var out api.Status
	_, err = c.do(ctx, call{method: http.MethodDelete, path: bulkPath(id), out: &out, repeat: repeatAlways})
	return out.Status, err
}

func bulkPath(id string) string { return "/api/v1/bulk/" + url.PathEscape(id) }
