package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/corvo/corvo/api"
)

// act sends an action on one job and returns the status of the response.
func (c *Client) act(ctx context.Context, jobID, what string, body any, again repeat) (string, error) {
	var out api.Status
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/api/v1/jobs/" + url.PathEscape(jobID) + "/" + what, body: body, out: &out, repeat: again})
	return out.Status, err
}

// Retry makes a settled job run again, from its first attempt and its last checkpoint. It deletes the job's
// result and the history of its attempts. The error is STATE_CONFLICT if the job has not settled, and
// CONFLICT if another job holds its unique key.
func (c *Client) Retry(ctx context.Context, jobID string) error {
	_, err := c.act(ctx, jobID, "retry", nil, repeatKeyed)
	return err
}

// Cancel cancels a job. The status is "cancelled", or "cancelling" until the worker that runs the job ends
// the attempt; an ack then still completes the job. The error is STATE_CONFLICT if the job is completed or
// dead.
func (c *Client) Cancel(ctx context.Context, jobID string) (status string, err error) {
	return c.act(ctx, jobID, "cancel", nil, repeatAlways)
}

// Hold keeps a waiting job from being fetched until Approve or Reject. reason may be "". The error is
// STATE_CONFLICT if the job is not pending, scheduled or retrying.
func (c *Client) Hold(ctx context.Context, jobID, reason string) error {
	_, err := c.act(ctx, jobID, "hold", api.ReasonRequest{Reason: reason}, repeatKeyed)
	return err
}

// Approve releases a held job. The error is STATE_CONFLICT if the job is not held, and BUDGET_EXCEEDED if a
// budget holds it and still lacks the money.
func (c *Client) Approve(ctx context.Context, jobID string) error {
	_, err := c.act(ctx, jobID, "approve", nil, repeatKeyed)
	return err
}

// ApproveWith is Approve with the changes in req to the job's payload, checkpoint or agent. api.AgentChanges
// says which changes get STATE_CONFLICT.
func (c *Client) ApproveWith(ctx context.Context, jobID string, req api.ApproveRequest) error {
	_, err := c.act(ctx, jobID, "approve", req, repeatKeyed)
	return err
}

// Reject makes a held job dead, with reason as its error. reason may be "". The error is STATE_CONFLICT if
// the job is not held.
func (c *Client) Reject(ctx context.Context, jobID, reason string) error {
	_, err := c.act(ctx, jobID, "reject", api.ReasonRequest{Reason: reason}, repeatKeyed)
	return err
}

// Move moves a job to another queue. The error is STATE_CONFLICT if the job is active or cancelled, or cannot
// move to the shard of the queue, because it has iterations, scores or unresolved dependencies, or other jobs
// wait for it. It is PAYLOAD_TOO_LARGE if the job is too large for a move to another shard. It is CONFLICT if
// the queue is being deleted or, on the job's shard, would be one too many.
func (c *Client) Move(ctx context.Context, jobID, queue string) error {
	return c.MoveWith(ctx, jobID, api.MoveJobRequest{Queue: queue})
}

// MoveWith is Move with the options in req.
func (c *Client) MoveWith(ctx context.Context, jobID string, req api.MoveJobRequest) error {
	_, err := c.act(ctx, jobID, "move", req, repeatKeyed)
	return err
}

// Delete deletes a job. The status is "deleted", or "deleting" until the worker that runs the job ends the
// attempt.
func (c *Client) Delete(ctx context.Context, jobID string) (status string, err error) {
	var out api.Status
	_, err = c.do(ctx, call{method: http.MethodDelete, path: "/api/v1/jobs/" + url.PathEscape(jobID), out: &out, repeat: repeatKeyed})
	return out.Status, err
}

// DeadPage selects a page of dead jobs. The zero value is the first page of all queues.
type DeadPage struct {
	Queue  string // "" = all queues
	Limit  int    // at most 1,000; 0 = 50
	Cursor string // of the page before
}

// Dead lists dead jobs, the last created first.
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
