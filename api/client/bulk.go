package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/corvo/corvo/api"
)

// bulkWait is how long the server waits for an operation's end.
const bulkWait = 20 * time.Second

// Bulk does one thing to many jobs. Where it goes on after the answer, because they
// are many or that was asked for, ended is nil; else started is.
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

// BulkOperation is a bulk operation.
func (c *Client) BulkOperation(ctx context.Context, id string) (api.Bulk, error) {
	var out api.Bulk
	_, err := c.do(ctx, call{method: http.MethodGet, path: bulkPath(id), out: &out, repeat: repeatAlways})
	return out, err
}

// CancelBulk ends a bulk operation early: it is "cancelled" then, or "cancelling" where
// some shards have yet to hear of it.
func (c *Client) CancelBulk(ctx context.Context, id string) (status string, err error) {
	var out api.Status
	_, err = c.do(ctx, call{method: http.MethodDelete, path: bulkPath(id), out: &out, repeat: repeatAlways})
	return out.Status, err
}

func bulkPath(id string) string { return "/api/v1/bulk/" + url.PathEscape(id) }
