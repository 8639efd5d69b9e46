package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/corvo/corvo/api"
)

// IterationPage is which iterations of a job are asked for; the zero value is the first
// page, as long as may be.
type IterationPage struct {
	After int // only those with a higher number
	Limit int // at most 1000
}

// Iterations are those of an agent's job that have ended, oldest first.
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

// Replay makes a job that does an iteration of another again, from 1 on, and goes on
// from there.
func (c *Client) Replay(ctx context.Context, jobID string, from int) (newJobID string, err error) {
	var out api.EnqueueResponse
	_, err = c.do(ctx, call{method: http.MethodPost, path: "/api/v1/jobs/" + url.PathEscape(jobID) + "/replay", body: api.ReplayRequest{From: from}, out: &out, repeat: repeatKeyed})
	return out.JobID, err
}

// Score judges a job: of each dimension a scorer has one score, the latest.
func (c *Client) Score(ctx context.Context, jobID, dimension string, value float64, scorer string) error {
	_, err := c.act(ctx, jobID, "scores", api.ScoreRequest{Dimension: dimension, Value: &value, Scorer: scorer}, repeatKeyed)
	return err
}

// Scores are the judgements of a job.
func (c *Client) Scores(ctx context.Context, jobID string, r Read) ([]api.Score, error) {
	var out api.Scores
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/jobs/" + url.PathEscape(jobID) + "/scores" + r.query(), out: &out, repeat: repeatAlways})
	return out.Scores, err
}
