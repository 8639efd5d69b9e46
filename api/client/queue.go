package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/corvo/corvo/api"
)

func queuePath(name, action string) string {
	return "/api/v1/queues/" + url.PathEscape(name) + action
}

// Queues lists the queues that the key may see, sorted by name.
func (c *Client) Queues(ctx context.Context, r Read) ([]api.Queue, error) {
	var out []api.Queue
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/queues" + r.query(), out: &out, repeat: repeatAlways})
	return out, err
}

// Throughput returns the counts of the last minute in the queues that the key may see, as the node has read
// them since its start.
func (c *Client) Throughput(ctx context.Context) (api.Throughput, error) {
	var out api.Throughput
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/metrics/throughput", out: &out, repeat: repeatAlways})
	return out, err
}

// Queue returns the settings and counts of one queue.
func (c *Client) Queue(ctx context.Context, name string, r Read) (api.Queue, error) {
	var out api.Queue
	_, err := c.do(ctx, call{method: http.MethodGet, path: queuePath(name, "") + r.query(), out: &out, version: &out.Version, repeat: repeatAlways})
	return out, err
}

// PauseQueue stops fetches from a queue. Jobs can still be enqueued. Like all calls that set something of a
// queue, it creates the queue if the queue does not exist. These calls get CONFLICT while the queue is being
// deleted, or if the queue is new and the maximum number of queues exists.
func (c *Client) PauseQueue(ctx context.Context, name string) error {
	_, err := c.do(ctx, call{method: http.MethodPost, path: queuePath(name, "/pause"), repeat: repeatAlways})
	return err
}

// ResumeQueue ends a pause or drain.
func (c *Client) ResumeQueue(ctx context.Context, name string) error {
	_, err := c.do(ctx, call{method: http.MethodPost, path: queuePath(name, "/resume"), repeat: repeatAlways})
	return err
}

// SetConcurrency limits the active jobs of a queue; 0 = no limit.
func (c *Client) SetConcurrency(ctx context.Context, name string, most int) error {
	_, err := c.do(ctx, call{method: http.MethodPost, path: queuePath(name, "/concurrency"), body: api.ConcurrencyRequest{Max: &most}, repeat: repeatAlways})
	return err
}

// PutQueue replaces all settings of a queue, or creates the queue. An absent setting gets its default; in
// particular, a paused or draining queue resumes unless req.Paused is true.
func (c *Client) PutQueue(ctx context.Context, name string, req api.PutQueueRequest) (api.Queue, error) {
	var out api.Queue
	_, err := c.do(ctx, call{method: http.MethodPut, path: queuePath(name, ""), body: req, out: &out, version: &out.Version, repeat: repeatAlways})
	return out, err
}

// PutQueueAt is PutQueue on the condition that the queue's settings have the given version, or, if version is
// 0, that the queue does not exist. If the condition fails, the error is PRECONDITION_FAILED.
func (c *Client) PutQueueAt(ctx context.Context, name string, req api.PutQueueRequest, version int64) (api.Queue, error) {
	var out api.Queue
	_, err := c.do(ctx, call{
		method: http.MethodPut, path: queuePath(name, ""), body: req, out: &out, version: &out.Version,
		ifMatch: version, ifNone: version == 0, repeat: repeatKeyed,
	})
	return out, err
}

// Throttle limits how many jobs of a queue start in any window of time.
func (c *Client) Throttle(ctx context.Context, name string, req api.ThrottleRequest) error {
	_, err := c.do(ctx, call{method: http.MethodPost, path: queuePath(name, "/throttle"), body: req, repeat: repeatAlways})
	return err
}

// Unthrottle removes the limit of Throttle. If the queue does not exist, the error is NOT_FOUND.
func (c *Client) Unthrottle(ctx context.Context, name string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: queuePath(name, "/throttle"), repeat: repeatAlways})
	return err
}

// DrainQueue stops fetches from a queue, like PauseQueue. The status is "draining" while jobs of the queue
// are active, and then "drained"; call DrainQueue again to see it change. ResumeQueue ends the drain.
func (c *Client) DrainQueue(ctx context.Context, name string) (status string, err error) {
	var out api.Status
	_, err = c.do(ctx, call{method: http.MethodPost, path: queuePath(name, "/drain"), out: &out, repeat: repeatAlways})
	return out.Status, err
}

// ClearQueue removes the pending, scheduled and retrying jobs that the queue has now. If that takes long, the
// status is "clearing" and the server continues after the response. The error is CONFLICT while the queue is
// being deleted.
func (c *Client) ClearQueue(ctx context.Context, name string) (api.Cleared, error) {
	var out api.Cleared
	_, err := c.do(ctx, call{method: http.MethodPost, path: queuePath(name, "/clear"), out: &out, repeat: repeatRefused})
	return out, err
}

// DeleteQueue deletes a queue and its jobs; it cancels active jobs first. With ifSettled the error is
// STATE_CONFLICT while a job has not settled. If the deletion takes long, the server continues after the
// response.
func (c *Client) DeleteQueue(ctx context.Context, name string, ifSettled bool) error {
	path := queuePath(name, "") + "?confirm=true"
	if ifSettled {
		path += "&if_settled=true"
	}
	_, err := c.do(ctx, call{method: http.MethodDelete, path: path, repeat: repeatAlways})
	return err
}
