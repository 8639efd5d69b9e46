package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/corvo/corvo/api"
)

// act does something to one job, and answers what has become of it.
func (c *Client) act(ctx context.Context, jobID, what string, body any, again repeat) (string, error) {
	var out api.Status
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/api/v1/jobs/" + url.PathEscape(jobID) + "/" + what, body: body, out: &out, repeat: again})
	return out.Status, err
}

// Retry has a settled job run again from its first attempt.
func (c *Client) Retry(ctx context.Context, jobID string) error {
	_, err := c.act(ctx, jobID, "retry", nil, repeatKeyed)
	return err
}

// Cancel gives a job up: it is "cancelled" then, or "cancelling" where a worker has
// it, until that lets go.
func (c *Client) Cancel(ctx context.Context, jobID string) (status string, err error) {
	return c.act(ctx, jobID, "cancel", nil, repeatAlways)
}

// Hold keeps a job that waits from being fetched. The reason may be "".
func (c *Client) Hold(ctx context.Context, jobID, reason string) error {
	_, err := c.act(ctx, jobID, "hold", api.ReasonRequest{Reason: reason}, repeatKeyed)
	return err
}

// Approve lets a held job run.
func (c *Client) Approve(ctx context.Context, jobID string) error {
	_, err := c.act(ctx, jobID, "approve", nil, repeatKeyed)
	return err
}

// ApproveWith lets a held job run, with another payload, checkpoint or agent where the
// request says so.
func (c *Client) ApproveWith(ctx context.Context, jobID string, req api.ApproveRequest) error {
	_, err := c.act(ctx, jobID, "approve", req, repeatKeyed)
	return err
}

// Reject has a held job die. The reason may be "".
func (c *Client) Reject(ctx context.Context, jobID, reason string) error {
	_, err := c.act(ctx, jobID, "reject", api.ReasonRequest{Reason: reason}, repeatKeyed)
	return err
}

// Move puts a job into another queue.
func (c *Client) Move(ctx context.Context, jobID, queue string) error {
	return c.MoveWith(ctx, jobID, api.MoveJobRequest{Queue: queue})
}

// MoveWith is Move with all that a move can be asked for.
func (c *Client) MoveWith(ctx context.Context, jobID string, req api.MoveJobRequest) error {
	_, err := c.act(ctx, jobID, "move", req, repeatKeyed)
	return err
}

// Delete removes a job: it is "deleted" then, or "deleting" where a worker has it,
// until that lets go.
func (c *Client) Delete(ctx context.Context, jobID string) (status string, err error) {
	var out api.Status
	_, err = c.do(ctx, call{method: http.MethodDelete, path: "/api/v1/jobs/" + url.PathEscape(jobID), out: &out, repeat: repeatKeyed})
	return out.Status, err
}

// DeadPage is a page of dead jobs; the zero DeadPage is the first one of all queues.
type DeadPage struct {
	Queue  string // only of this one
	Limit  int    // 0 = 50
	Cursor string // of the page before
}

// Dead lists dead jobs, newest first.
func (c *Client) Dead(ctx context.Context, page DeadPage, r Read) (api.SearchResponse, error) {
	q := url.Values{}
	for name, value := range map[string]string{"queue": page.Queue, "cursor": page.Cursor} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if page.Limit != 0 {
		q.Set("limit", strconv.Itoa(page.Limit))
	}
	var out api.SearchResponse
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/dead" + r.with(q), out: &out, repeat: repeatAlways})
	return out, err
}
