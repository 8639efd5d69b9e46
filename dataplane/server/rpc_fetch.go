package server

import (
	"fmt"
	"net/http"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/telemetry"
)

const (
	// maxRPCAnswer bounds the bytes of the jobs in one answer, because gRPC clients accept 4 MiB by default,
	// and the answer contains more than jobs. A single larger job is sent anyway.
	maxRPCAnswer = 4<<20 - 64<<10
	// rpcEarly is the time between the answer of a waiting fetch and the caller's deadline. If a quarter of
	// the caller's remaining time is shorter, that quarter replaces rpcEarly.
	rpcEarly = 500 * time.Millisecond
)

func (s *Server) rpcFetch(c *rpcCall, m *workerpb.FetchRequest) (*workerpb.FetchResponse, error) {
	q, err := s.beginRPC(c, m)
	if err != nil {
		return nil, err
	}
	ask, err := convert.FromRPCFetch(m.Queues, m.WorkerId, m.Hostname, m.LeaseDuration, 1, m.Concurrency)
	if err != nil {
		return nil, err
	}
	jobs, err := s.fetchRPC(c, q, &ask, false)
	if err != nil || len(jobs) == 0 {
		return &workerpb.FetchResponse{}, err
	}
	j := jobs[0]
	return &workerpb.FetchResponse{
		Found: true, JobId: j.JobId, Queue: j.Queue, PayloadJson: j.PayloadJson, Attempt: j.Attempt, MaxRetries: j.MaxRetries,
		LeaseDuration: j.LeaseDuration, CheckpointJson: j.CheckpointJson, TagsJson: j.TagsJson, Agent: j.Agent,
		LeaseToken: j.LeaseToken, HeadersJson: j.HeadersJson, ToolResultsJson: j.ToolResultsJson,
	}, nil
}

func (s *Server) rpcFetchBatch(c *rpcCall, m *workerpb.FetchBatchRequest) (*workerpb.FetchBatchResponse, error) {
	q, err := s.beginRPC(c, m)
	if err != nil {
		return nil, err
	}
	count := m.Count
	if count == 0 { // absent
		count = 1
	}
	ask, err := convert.FromRPCFetch(m.Queues, m.WorkerId, m.Hostname, m.LeaseDuration, count, m.Concurrency)
	if err != nil {
		return nil, err
	}
	jobs, err := s.fetchRPC(c, q, &ask, true)
	return &workerpb.FetchBatchResponse{Jobs: jobs}, err
}

// fetchRPC leases jobs for a call, as handOut does. serveRPC delivers them or gives them back.
func (s *Server) fetchRPC(c *rpcCall, q *request, ask *convert.Fetch, batch bool) ([]*workerpb.FetchBatchJob, error) {
	c.body.release() // the message does not count against the budget while the call waits
	if until, ok := c.r.Context().Deadline(); ok {
		left := time.Until(until)
		ask.Wait = max(0, min(ask.Wait, left-min(rpcEarly, left/4)))
	}
	r, span := q.beginSpan(c.r, telemetry.SpanFetch, telemetry.OperationReceive)
	if len(ask.Queues) == 1 {
		span.queue(ask.Queues[0])
	}
	leased, err := s.lease(c.w, r, q, ask, span)
	if err != nil || len(leased) == 0 {
		if err == nil && !span.wanted(r) {
			serve.DropSpan(r.Context())
			return nil, nil
		}
		span.end(err)
		return nil, err
	}
	if batch {
		span.batch(len(leased))
	}
	jobs, kept, err := s.compose(r, q, leased, ask.LeaseMs, span)
	c.leased = kept
	span.end(err)
	return jobs, err
}

// compose builds messages from leased jobs and returns them with their leases. It gives back the jobs that do
// not fit into the answer. It does so even for a fetch with an Idempotency-Key, because an answer to a repeat
// has no room for these jobs either. If a job cannot be read, all jobs count as undelivered. The first job
// always goes into the answer, so that a job that is too large for any answer does not return again and
// again.
func (s *Server) compose(r *http.Request, q *request, leased []lease, leaseMs int64, span *span) (jobs []*workerpb.FetchBatchJob, kept []lease, err error) {
	all, texts := make([]workerpb.FetchBatchJob, len(leased)), convert.NewTexts(len(leased))
	jobs = make([]*workerpb.FetchBatchJob, 0, len(leased))
	var from sweeps
	defer from.close()
	size := 0
	for i, l := range leased {
		if err := composeJob(r, q, &all[i], &texts, from.of(l.cell, len(leased)-i), l, leaseMs, span); err != nil {
			s.undelivered(r, q, leased)
			return nil, nil, err
		}
		if size += all[i].SizeVT(); size > maxRPCAnswer && i > 0 {
			s.giveBack(r, q, leased[i:])
			return jobs, leased[:i], nil
		}
		jobs = append(jobs, &all[i])
	}
	return jobs, leased, nil
}

func composeJob(r *http.Request, q *request, into *workerpb.FetchBatchJob, texts *convert.Texts, from state.Reader, l lease, leaseMs int64, span *span) error {
	id, err := job.IDFromBytes(l.Id)
	if err != nil {
		return fmt.Errorf("result of a fetch: %w", err)
	}
	j, err := from.Job(id)
	if err != nil {
		return fmt.Errorf("compose %s for its worker: %w", id, err)
	}
	var tools []api.ToolResult
	if j.GetDetail().GetIterationsKept() > 0 {
		if tools, err = q.toolResults(r.Context(), l.cell, id, j); err != nil {
			return fmt.Errorf("compose %s for its worker: %w", id, err)
		}
	}
	if err := convert.ToRPCFetched(into, texts, from, id, j, l.Leased, leaseMs, tools); err != nil {
		return fmt.Errorf("compose %s for its worker: %w", id, err)
	}
	span.link(j)
	return nil
}
