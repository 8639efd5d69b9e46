package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/corvo/corvo/api"
)

// defaultFetchWait is the time that the server waits if a fetch does not set it.
const defaultFetchWait = 30 * time.Second

// Enqueue creates a job, unless another job of the queue holds its unique or debounce key: the Status of the
// response then says so. The error is QUEUE_FULL if the queue has no room, CONFLICT while the queue is being
// deleted or if the queue is new and the maximum number of queues exists, and NOT_FOUND if a dependency on
// the shard of the queue does not exist.
func (c *Client) Enqueue(ctx context.Context, req api.EnqueueRequest) (api.EnqueueResponse, error) {
	var out api.EnqueueResponse
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/api/v1/enqueue", body: req, out: &out, repeat: repeatKeyed})
	return out, err
}

// EnqueueBatch creates 1 to 1,000 jobs, either all or none. The error is CROSS_SHARD if their queues lie on
// different shards, and CONFLICT if one queue would get more new jobs than its max_length. The other errors
// are those of Enqueue.
func (c *Client) EnqueueBatch(ctx context.Context, jobs []api.EnqueueRequest) (api.EnqueueBatchResponse, error) {
	var out api.EnqueueBatchResponse
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/api/v1/enqueue/batch", body: api.EnqueueBatchRequest{Jobs: jobs}, out: &out, repeat: repeatKeyed})
	return out, err
}

// Fetch leases a job and waits for one as long as the request says. A nil job without an error means that
// there was none.
//
// After a lost connection call Fetch again: a leased job returns to its queue, at the latest when its lease
// expires. That costs the job some time and perhaps an attempt. A key for each fetch would avoid that, but
// the server would have to remember each job for a day. So Fetch itself repeats a lost fetch only under
// WithIdempotencyKey. LEASE_LOST then means that the job of that key is no longer leased: continue with a new
// key.
//
// If the job cannot be decoded, Fetch fails its attempt at the server and returns an error.
func (c *Client) Fetch(ctx context.Context, req api.FetchRequest) (*api.FetchedJob, error) {
	out := fetched{one: true}
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/api/v1/fetch", body: req, out: &out, repeat: repeatRefused, wait: waitOf(req)})
	if err == nil {
		err = out.refuse(ctx, c)
	}
	if err != nil || len(out.jobs) == 0 {
		return nil, err
	}
	return &out.jobs[0], nil
}

// FetchBatch leases up to req.Count jobs and waits only while there is none. It is repeated as Fetch is. It
// fails the attempts of jobs that it cannot decode. Their errors are returned if there are no other jobs.
// FetchBatch always returns an error for a job that it could not fail, because the server could not be told
// or because the job's id or lease token cannot be decoded. The returned jobs are leased even if there is an
// error.
func (c *Client) FetchBatch(ctx context.Context, req api.FetchBatchRequest) ([]api.FetchedJob, error) {
	out, err := c.fetchBatch(ctx, req)
	return out.jobs, errors.Join(err, out.refuse(ctx, c))
}

func (c *Client) fetchBatch(ctx context.Context, req api.FetchBatchRequest) (out fetched, err error) {
	_, err = c.do(ctx, call{method: http.MethodPost, path: "/api/v1/fetch/batch", body: req, out: &out, repeat: repeatRefused, wait: waitOf(req.FetchRequest)})
	return out, err
}

func waitOf(req api.FetchRequest) time.Duration {
	if req.Timeout == nil {
		return defaultFetchWait
	}
	return time.Duration(*req.Timeout) * time.Second
}

// Ack completes a job, or ends an iteration of an agent's job. It is no error if the same lease has completed
// the job already. The error is LEASE_LOST if the lease is over: stop working on the job. It is
// RESULT_MISMATCH if the result does not match the job's schema; the server has then failed the attempt. For
// an agent's job it is STATE_CONFLICT if the job would go on after its last possible iteration, and
// PAYLOAD_TOO_LARGE if the documents of all iterations together are too large.
func (c *Client) Ack(ctx context.Context, jobID string, req api.AckRequest) error {
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/api/v1/ack/" + url.PathEscape(jobID), body: req, repeat: repeatOf(req)})
	return err
}

// repeatOf returns how an ack is repeated. The ack of an agent's job that continues or is held needs an
// Idempotency-Key, because the job may have another lease by the time of the repeat.
func repeatOf(req api.AckRequest) repeat {
	if req.AgentStatus == api.AgentContinue || req.AgentStatus == api.AgentHold {
		return repeatKeyed
	}
	return repeatAlways
}

// AckBatch completes several jobs. Each ack succeeds or fails on its own; Errors in the response lists the
// refused ones. It sends no Idempotency-Key of its own, because with a key the error is CROSS_SHARD if the
// jobs lie on several shards. AckBatch repeats a batch of unknown outcome unless an ack continues or holds an
// agent's job. If you repeat such a batch, LEASE_LOST may mean that the first try acked the job.
func (c *Client) AckBatch(ctx context.Context, acks []api.AckItem) (api.AckBatchResponse, error) {
	var out api.AckBatchResponse
	again := repeatAlways
	for i := range acks {
		if repeatOf(acks[i].AckRequest) != repeatAlways {
			again = repeatRefused
		}
	}
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/api/v1/ack/batch", body: api.AckBatchRequest{Acks: acks}, out: &out, repeat: again})
	return out, err
}

// Fail ends a job's attempt without success. The error is LEASE_LOST if the lease is over.
func (c *Client) Fail(ctx context.Context, jobID string, req api.FailRequest) (api.FailResponse, error) {
	var out api.FailResponse
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/api/v1/fail/" + url.PathEscape(jobID), body: req, out: &out, repeat: repeatKeyed})
	return out, err
}

// Heartbeat renews the leases of several jobs. If req reports usage without a ReportID, Heartbeat sets one,
// so that its own retries count the usage once. Heartbeat needs no Idempotency-Key; with one, the error is
// CROSS_SHARD if the jobs lie on several shards.
func (c *Client) Heartbeat(ctx context.Context, req api.HeartbeatRequest) (api.HeartbeatResponse, error) {
	var out api.HeartbeatResponse
	for _, j := range req.Jobs {
		if req.ReportID == "" && j != nil && j.Usage != nil {
			req.ReportID = newKey()
		}
	}
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/api/v1/heartbeat", body: req, out: &out, repeat: repeatAlways})
	return out, err
}

// Read sets the consistency of a read. The zero Read returns the state that the node has applied. A search
// with the zero Read waits for the search view to reach that state, for two seconds at most, and then
// searches the view as it is.
type Read struct {
	MinIndex string // a Corvo-Index that the result must include
	Strong   bool   // include every write acknowledged before, by any node; Eventual is then ignored
	Eventual bool   // do not wait for the search view
}

func (r Read) query() string { return r.with(url.Values{}) }

// with returns the query of a read with further parameters.
func (r Read) with(q url.Values) string {
	if r.MinIndex != "" {
		q.Set("min_index", r.MinIndex)
	}
	switch {
	case r.Strong:
		q.Set("consistency", "strong")
	case r.Eventual:
		q.Set("consistency", "eventual")
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

// Job returns a job with all its fields.
func (c *Client) Job(ctx context.Context, jobID string, r Read) (api.Job, error) {
	var out api.Job
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/jobs/" + url.PathEscape(jobID) + r.query(), out: &out, repeat: repeatAlways})
	return out, err
}

// Why returns the reasons why a job does not run.
func (c *Client) Why(ctx context.Context, jobID string, r Read) (api.Why, error) {
	var out api.Why
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/jobs/" + url.PathEscape(jobID) + "/why" + r.query(), out: &out, repeat: repeatAlways})
	return out, err
}

// SearchAll calls f with each job of a search, page by page. It stops at the first error of f and returns it.
// limit is the largest number of jobs; 0 = no limit.
func (c *Client) SearchAll(ctx context.Context, req api.SearchRequest, r Read, limit int, f func(*api.Job) error) error {
	for shown := 0; ; {
		page, err := c.Search(ctx, req, r)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			if limit > 0 && shown == limit {
				return nil
			}
			if err := f(&page.Jobs[i]); err != nil {
				return err
			}
			shown++
		}
		if !page.HasMore {
			return nil
		}
		req.Cursor = page.Cursor
	}
}

// SearchWords returns a page of the jobs whose payload, tags and queue name together contain all the words. A
// whole job id counts as a word. "phrases" and prefix* are supported. limit is at most 1,000; 0 = 50.
func (c *Client) SearchWords(ctx context.Context, words string, limit int, cursor string, r Read) (api.SearchResponse, error) {
	q := url.Values{"q": {words}}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	var out api.SearchResponse
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/search/fulltext" + r.with(q), out: &out, repeat: repeatAlways})
	return out, err
}

// Jobs returns jobs by their ids, at most 1,000, in the order of ids. It leaves out jobs that are missing or
// that the caller may not see. The error is PAYLOAD_TOO_LARGE if their payloads, results and checkpoints have
// more than 64 MiB.
func (c *Client) Jobs(ctx context.Context, ids []string, r Read) ([]api.Job, error) {
	var out api.BulkGetResponse
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/api/v1/jobs/bulk-get" + r.query(), body: api.BulkGetRequest{JobIDs: ids}, out: &out, repeat: repeatAlways})
	return out.Jobs, err
}

// Search returns a page of jobs. The next page starts at the Cursor of the response. The error is
// INVALID_FILTER if the filter's jq expression is invalid.
func (c *Client) Search(ctx context.Context, req api.SearchRequest, r Read) (api.SearchResponse, error) {
	var out api.SearchResponse
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/api/v1/jobs/search" + r.query(), body: req, out: &out, repeat: repeatAlways})
	return out, err
}
