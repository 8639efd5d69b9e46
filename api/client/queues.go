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

// Queue is one queue's settings and counters.
func (c *Client) Queue(ctx context.Context, name string, r Read) (api.Queue, error) {
	var out api.Queue
	_, err := c.do(ctx, call{method: http.MethodGet, path: queuePath(name, "") + r.query(), out: &out, repeat: repeatAlways})
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
	_, err := c.do(ctx, call{method: http.MethodPut, path: queuePath(name, ""), body: req, out: &out, repeat: repeatAlways})
	return out, err
}

// DeleteQueue removes a queue that has no jobs.
func (c *Client) DeleteQueue(ctx context.Context, name string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: queuePath(name, "") + "?confirm=true", repeat: repeatAlways})
	return err
}
