package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/corvo/corvo/api"
)

// IterationPage selects a page of iterations. The zero value is the first page, of the largest size.
type IterationPage struct {
	After int // only iterations with a higher number
	Limit int // at most 1000; 0 = 1000
}

// Iterations lists the ended iterations of an agent's job, the oldest first.
func (c *Client) Iterations(ctx context.Context, jobID string, page IterationPage, r Read) (api.Iterations, error) {
	q := url.Values{}
	if page.After > 0 {
		q.Set("after", strconv.Itoa(page.After))
	}
	if page.Limit > 0 {
		q.Set("limit", strconv.Itoa(page.Limit))
	}
	var out api.Iterations
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/jobs/" + url.PathEscape(jobID) + "/iterations" + r.with(q), out: &out, repeat: repeatAlways})
	return out, err
}

// Replay creates a job that repeats iteration number `from` of the agent's job jobID and continues from
// there. The first iteration has the number 1. Replay returns the id of the new job. The error is NOT_FOUND
// if the server does not have that iteration's input, and STATE_CONFLICT if the job has no iterations or is
// moving to another queue. If the job's queue takes no job, the error is that of Enqueue.
func (c *Client) Replay(ctx context.Context, jobID string, from int) (newJobID string, err error) {
	var out api.EnqueueResponse
	_, err = c.do(ctx, call{method: http.MethodPost, path: "/api/v1/jobs/" + url.PathEscape(jobID) + "/replay", body: api.ReplayRequest{From: from}, out: &out, repeat: repeatKeyed})
	return out.JobID, err
}

// Score rates a job. For each pair of dimension and scorer the server keeps only the latest value. The error
// is CONFLICT if the job has the maximum number of scores.
func (c *Client) Score(ctx context.Context, jobID, dimension string, value float64, scorer string) error {
	_, err := c.act(ctx, jobID, "scores", api.ScoreRequest{Dimension: dimension, Value: &value, Scorer: scorer}, repeatKeyed)
	return err
}

// Scores lists the ratings of a job.
func (c *Client) Scores(ctx context.Context, jobID string, r Read) ([]api.Score, error) {
	var out api.Scores
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/jobs/" + url.PathEscape(jobID) + "/scores" + r.query(), out: &out, repeat: repeatAlways})
	return out.Scores, err
}
