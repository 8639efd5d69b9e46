package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/corvo/corvo/api"
)

// defaultFetchWait is how long the server waits when a fetch does not say.
const defaultFetchWait = 30 * time.Second

// Enqueue creates a job.
func (c *Client) Enqueue(ctx context.Context, req api.EnqueueRequest) (api.EnqueueResponse, error) {
	var out api.EnqueueResponse
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/api/v1/enqueue", body: req, out: &out, repeat: repeatKeyed})
	return out, err
}

// EnqueueBatch creates all of the jobs or none.
func (c *Client) EnqueueBatch(ctx context.Context, jobs []api.EnqueueRequest) (api.EnqueueBatchResponse, error) {
	var out api.EnqueueBatchResponse
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/api/v1/enqueue/batch", body: api.EnqueueBatchRequest{Jobs: jobs}, out: &out, repeat: repeatKeyed})
	return out, err
}

// Fetch leases a job, waiting for one as long as the request says; nil without
// an error means that there was none. When the connection breaks the job, if
// any, goes back to its queue or its lease runs out: fetch again. That costs a
// job some time and perhaps an attempt, whereas a key for each fetch would cost
// the server a record of each job for a day; so a fetch carries a key, and is
// then repeated, only under WithIdempotencyKey. LEASE_LOST says that what the key
// fetched is held no longer: go on with a new one. A job that cannot be read here is an
// error, and has failed, which the server is told.
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

// FetchBatch leases up to req.Count jobs, waiting only while there is none. It is
// repeated as Fetch is. Jobs that cannot be read here have failed, which the server is
// told; they are an error only where there are no others. Where it cannot be told that is
// an error also beside jobs, which are leased nevertheless.
func (c *Client) FetchBatch(ctx context.Context, req api.FetchBatchRequest) ([]api.FetchedJob, error) {
	out, err := c.fetchBatch(ctx, req)
	if refused := out.refuse(ctx, c); err == nil {
		err = refused
	}
	return out.jobs, err
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

// Ack completes a job, or ends an iteration of an agent's. A job completed by the same
// lease already is no error.
func (c *Client) Ack(ctx context.Context, jobID string, req api.AckRequest) error {
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/api/v1/ack/" + url.PathEscape(jobID), body: req, repeat: repeatOf(req)})
	return err
}

// repeatOf says how an ack is repeated. A job that goes on may be with the next worker
// by then, and its lease be another.
func repeatOf(req api.AckRequest) repeat {
	if req.AgentStatus == api.AgentContinue || req.AgentStatus == api.AgentHold {
		return repeatKeyed
	}
	return repeatAlways
}

// AckBatch completes jobs, each on its own; those refused are in the answer's
// Errors.
func (c *Client) AckBatch(ctx context.Context, acks []api.AckItem) (api.AckBatchResponse, error) {
	var out api.AckBatchResponse
	again := repeatAlways
	for i := range acks {
		if repeatOf(acks[i].AckRequest) == repeatKeyed {
			again = repeatKeyed
		}
	}
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/api/v1/ack/batch", body: api.AckBatchRequest{Acks: acks}, out: &out, repeat: again})
	return out, err
}

// Fail ends a job's attempt without success.
func (c *Client) Fail(ctx context.Context, jobID string, req api.FailRequest) (api.FailResponse, error) {
	var out api.FailResponse
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/api/v1/fail/" + url.PathEscape(jobID), body: req, out: &out, repeat: repeatKeyed})
	return out, err
}

// Heartbeat renews the leases of the jobs it names.
func (c *Client) Heartbeat(ctx context.Context, req api.HeartbeatRequest) (api.HeartbeatResponse, error) {
	var out api.HeartbeatResponse
	again := repeatAlways
	for _, j := range req.Jobs {
		if j.Usage != nil {
			again = repeatKeyed // usage is summed: a repeat would count it twice
		}
	}
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/api/v1/heartbeat", body: req, out: &out, repeat: again})
	return out, err
}

// Read says how fresh a read must be; the zero Read shows what the node had
// applied when it was asked.
type Read struct {
	MinIndex string // a Corvo-Index that must be included
	Strong   bool   // every write acknowledged before, by any node
	Eventual bool   // do not wait for the search view
}

func (r Read) query() string { return r.with(url.Values{}) }

// with is the query of a read that has other parameters too.
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

// Job is a job with everything known of it.
func (c *Client) Job(ctx context.Context, jobID string, r Read) (api.Job, error) {
	var out api.Job
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/jobs/" + url.PathEscape(jobID) + r.query(), out: &out, repeat: repeatAlways})
	return out, err
}

// Why says why a job does not run.
func (c *Client) Why(ctx context.Context, jobID string, r Read) (api.Why, error) {
	var out api.Why
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/jobs/" + url.PathEscape(jobID) + "/why" + r.query(), out: &out, repeat: repeatAlways})
	return out, err
}

// SearchAll follows a search to its end, or to limit jobs if that is not 0, and calls f
// with each.
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

// SearchWords is a page of the jobs that have words, "phrases" and starts of words* in
// their payloads and tags; limit 0 is the server's.
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

// Jobs are jobs by their ids, at most 1,000, in the order asked for; those that are not
// there are left out.
func (c *Client) Jobs(ctx context.Context, ids []string, r Read) ([]api.Job, error) {
	var out api.BulkGetResponse
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/api/v1/jobs/bulk-get" + r.query(), body: api.BulkGetRequest{JobIDs: ids}, out: &out, repeat: repeatAlways})
	return out.Jobs, err
}

// Search is a page of jobs; the next one is asked for with the answer's Cursor.
func (c *Client) Search(ctx context.Context, req api.SearchRequest, r Read) (api.SearchResponse, error) {
	var out api.SearchResponse
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/api/v1/jobs/search" + r.query(), body: req, out: &out, repeat: repeatAlways})
	return out, err
}
