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

// Queues lists the queues the key may see, by name.
func (c *Client) Queues(ctx context.Context, r Read) ([]api.Queue, error) {
	var out []api.Queue
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/queues" + r.query(), out: &out, repeat: repeatAlways})
	return out, err
}

// Throughput is what happened in the last minute in the queues the key may see.
func (c *Client) Throughput(ctx context.Context) (api.Throughput, error) {
	var out api.Throughput
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/metrics/throughput", out: &out, repeat: repeatAlways})
	return out, err
}

// Queue is one queue's settings and counters.
func (c *Client) Queue(ctx context.Context, name string, r Read) (api.Queue, error) {
	var out api.Queue
	_, err := c.do(ctx, call{method: http.MethodGet, path: queuePath(name, "") + r.query(), out: &out, version: &out.Version, repeat: repeatAlways})
	return out, err
}

// PauseQueue stops fetches from a queue; jobs may still be added.
func (c *Client) PauseQueue(ctx context.Context, name string) error {
	_, err := c.do(ctx, call{method: http.MethodPost, path: queuePath(name, "/pause"), repeat: repeatAlways})
	return err
}

// ResumeQueue undoes PauseQueue.
func (c *Client) ResumeQueue(ctx context.Context, name string) error {
	_, err := c.do(ctx, call{method: http.MethodPost, path: queuePath(name, "/resume"), repeat: repeatAlways})
	return err
}

// SetConcurrency limits how many jobs of a queue run at once; 0 is no limit.
func (c *Client) SetConcurrency(ctx context.Context, name string, most int) error {
	_, err := c.do(ctx, call{method: http.MethodPost, path: queuePath(name, "/concurrency"), body: api.ConcurrencyRequest{Max: &most}, repeat: repeatAlways})
	return err
}

// PutQueue sets every setting of a queue, which it creates when it is new.
func (c *Client) PutQueue(ctx context.Context, name string, req api.PutQueueRequest) (api.Queue, error) {
	var out api.Queue
	_, err := c.do(ctx, call{method: http.MethodPut, path: queuePath(name, ""), body: req, out: &out, version: &out.Version, repeat: repeatAlways})
	return out, err
}

// PutQueueAt is PutQueue for a queue whose settings are at a version still; 0 is for one
// that is not there yet. It is PRECONDITION_FAILED where somebody else was faster.
func (c *Client) PutQueueAt(ctx context.Context, name string, req api.PutQueueRequest, version int64) (api.Queue, error) {
	var out api.Queue
	_, err := c.do(ctx, call{
		method: http.MethodPut, path: queuePath(name, ""), body: req, out: &out, version: &out.Version,
		ifMatch: version, ifNone: version == 0, repeat: repeatKeyed,
	})
	return out, err
}

// Throttle limits how many jobs of a queue are let go in any window.
func (c *Client) Throttle(ctx context.Context, name string, req api.ThrottleRequest) error {
	_, err := c.do(ctx, call{method: http.MethodPost, path: queuePath(name, "/throttle"), body: req, repeat: repeatAlways})
	return err
}

// Unthrottle undoes Throttle.
func (c *Client) Unthrottle(ctx context.Context, name string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: queuePath(name, "/throttle"), repeat: repeatAlways})
	return err
}

// DrainQueue stops fetches from a queue and says whether jobs of it are active
// still, "draining", or not, "drained". ResumeQueue undoes it.
func (c *Client) DrainQueue(ctx context.Context, name string) (status string, err error) {
	var out api.Status
	_, err = c.do(ctx, call{method: http.MethodPost, path: queuePath(name, "/drain"), out: &out, repeat: repeatAlways})
	return out.Status, err
}

// ClearQueue removes the jobs that wait in a queue. Where it takes longer than the
// server waits, it goes on after the answer, "clearing".
func (c *Client) ClearQueue(ctx context.Context, name string) (api.Cleared, error) {
	var out api.Cleared
	_, err := c.do(ctx, call{method: http.MethodPost, path: queuePath(name, "/clear"), out: &out, repeat: repeatRefused})
	return out, err
}

// DeleteQueue removes a queue and its jobs; with ifSettled it is STATE_CONFLICT
// while one of them has not settled. Where it takes long, as with active jobs, it
// goes on after the answer.
func (c *Client) DeleteQueue(ctx context.Context, name string, ifSettled bool) error {
	path := queuePath(name, "") + "?confirm=true"
	if ifSettled {
		path += "&if_settled=true"
	}
	_, err := c.do(ctx, call{method: http.MethodDelete, path: path, repeat: repeatAlways})
	return err
}
