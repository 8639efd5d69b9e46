package server

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/tenancy"
)

func (s *Server) enqueue(w http.ResponseWriter, r *http.Request) error {
	var body convert.EnqueueBody
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	made, err := s.enqueueJob(w, r, &q, &convert.Faults{}, &body)
	if err != nil {
		return err
	}
	return serve.WriteJSON(w, statusOf(made), made.Results[0])
}

// Three functions enqueue, and each calls the next:
//
//   - enqueueJob takes the body of a request for one job. The handlers of one job call it.
//   - enqueueJobs takes converted and authorised jobs. It adds the span and builds the HTTP response.
//   - commitJobs adds ids, dependencies and the trace context, proposes the op and sets the position in the header.
//     Streams call it, because their frames have a span and a response of their own.
//
// Handlers of other ops call commit, which proposes any op of a request and sets the position in the header.

// enqueueJob converts the body of one job, checks the caller's right to enqueue it and enqueues it. It
// refuses the request if f has faults, including those that f had before the call.
func (s *Server) enqueueJob(w http.ResponseWriter, r *http.Request, q *request, f *convert.Faults, body *convert.EnqueueBody) (*api.EnqueueBatchResponse, error) {
	at := q.shards.Of(body.Queue)
	n := convert.FromEnqueue(f, body, at.NowNs(), s.maxPayload)
	if err := f.Err(); err != nil {
		return nil, err
	}
	if err := q.mayEnqueue([]*op.NewJob{n}); err != nil {
		return nil, err
	}
	return s.enqueueJobs(w, r, q, at, &op.Enqueue{Jobs: []*op.NewJob{n}}, false)
}

// statusOf returns the status of an enqueue: 201 if it created a job, 200 if every job existed.
func statusOf(made *api.EnqueueBatchResponse) int {
	for i := range made.Results {
		if !made.Results[i].UniqueExisting {
			return http.StatusCreated
		}
	}
	return http.StatusOK
}

func (s *Server) enqueueBatch(w http.ResponseWriter, r *http.Request) error {
	var body convert.EnqueueBatchBody
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	var f convert.Faults
	jobs := convert.FromEnqueueBatch(&f, &body, q.shards.Home().NowNs(), s.maxPayload)
	batch := convert.FromNewBatch(&f, body.Batch)
	if err := f.Err(); err != nil {
		return err
	}
	if err := q.mayEnqueue(jobs); err != nil {
		return err
	}
	at, err := q.shardOf(jobs)
	if err != nil {
		return err
	}
	if err := q.mayBatch(r, at, batch); err != nil {
		return err
	}
	made, err := s.enqueueJobs(w, r, &q, at, &op.Enqueue{Jobs: jobs, Batch: batch}, true)
	if err != nil {
		return err
	}
	return serve.WriteJSON(w, statusOf(made), made)
}

// mayEnqueue checks the right to enqueue to the queue of each job and of each step of its chain. It sets the
// shards of the chain's queues.
func (q *request) mayEnqueue(jobs []*op.NewJob) error {
	for _, n := range jobs {
		if err := q.allow(tenancy.JobEnqueue, n.Queue); err != nil {
			return err
		}
		if err := q.mayChain(n.Chain); err != nil {
			return err
		}
	}
	return nil
}

// shardOf returns the one shard of all jobs. It refuses jobs of several shards with CROSS_SHARD.
func (q *request) shardOf(jobs []*op.NewJob) (*cell.Cell, error) {
	if q.shards.Count() == 1 {
		return q.shards.Home(), nil
	}
	queues := make([]string, len(jobs))
	for i, n := range jobs {
		queues[i] = n.Queue
	}
	return q.together(queues, "the jobs of a batch are enqueued all or none")
}

// enqueueJobs enqueues jobs on a shard, all or none, in one span, and builds the HTTP response. batch marks
// the span as that of a batch request.
func (s *Server) enqueueJobs(w http.ResponseWriter, r *http.Request, q *request, at *cell.Cell, enqueue *op.Enqueue, batch bool) (*api.EnqueueBatchResponse, error) {
	r, span := q.beginEnqueue(r, enqueue.Jobs, batch)
	var made *api.EnqueueBatchResponse
	result, written, err := s.commitJobs(w, r, q, at, enqueue)
	if err == nil && slices.ContainsFunc(result.Jobs, convert.HasResult) {
		err = s.awaitOwn(r.Context(), q, written)
	}
	if err == nil {
		made, err = toEnqueued(at, result)
	}
	if err == nil && !batch {
		span.message(made.JobIDs[0], 0)
	}
	span.end(err)
	return made, err
}

// toEnqueued builds the HTTP response of an enqueue.
func toEnqueued(at *cell.Cell, result *op.EnqueueResult) (_ *api.EnqueueBatchResponse, err error) {
	n := len(result.Jobs)
	made := &api.EnqueueBatchResponse{
		JobIDs: make([]string, n), Results: make([]api.EnqueueResponse, n), BatchID: convert.BatchID(result.BatchId),
	}
	for i, e := range result.Jobs {
		if made.Results[i], err = convert.ToEnqueued(at.State(), e); err != nil {
			return nil, err
		}
		made.JobIDs[i] = made.Results[i].JobID
	}
	return made, nil
}

// beginEnqueue starts the span of an enqueue.
func (q *request) beginEnqueue(r *http.Request, jobs []*op.NewJob, batch bool) (*http.Request, *span) {
	r, span := q.beginSpan(r, telemetry.SpanEnqueue, telemetry.OperationSend)
	if span != nil && oneQueue(jobs) {
		span.queue(jobs[0].Queue)
	}
	if batch {
		span.batch(len(jobs))
	}
	return r, span
}

func oneQueue(jobs []*op.NewJob) bool {
	for _, n := range jobs {
		if n.Queue != jobs[0].Queue {
			return false
		}
	}
	return true
}

// traceOf returns the trace context that jobs keep: the client's, even if this node does not sample it. If
// the client sent none, the jobs keep the context of the enqueue's span if this node samples that span.
func traceOf(r *http.Request) convert.Trace {
	t := convert.FromTraceHeader(r.Header)
	if t.Parent == "" && telemetry.Sampled(r.Context()) {
		t.Parent = telemetry.Traceparent(r.Context())
	}
	return t
}

// commitJobs proposes new jobs with their ids, dependencies and trace context. It returns the result of each
// job and the op's position, and sets that position in the header. The caller has checked the rights
// (mayEnqueue, mayBatch).
func (s *Server) commitJobs(w http.ResponseWriter, r *http.Request, q *request, at *cell.Cell, enqueue *op.Enqueue) (*op.EnqueueResult, position, error) {
	jobs := enqueue.Jobs
	if err := q.findDependencies(r, jobs); err != nil {
		return nil, position{}, err
	}
	q.meta.Ids = make([][]byte, len(jobs), len(jobs)+1)
	ids := at.NewIDs(jobs)
	for i := range ids {
		q.meta.Ids[i] = ids[i][:]
	}
	if enqueue.Batch != nil {
		id := at.NewID(jobs[0].Queue)
		q.meta.Ids = append(q.meta.Ids, id[:])
	}
	enqueue.Meta = q.meta
	traceOf(r).Store(enqueue)
	result, written, err := proposeOnce[*op.EnqueueResult](s, r, q, at, enqueue)
	if err != nil {
		return nil, position{}, err
	}
	setIndex(w, written)
	if len(result.Jobs) != len(jobs) {
		return nil, position{}, fmt.Errorf("an enqueue of %d jobs has %d results", len(jobs), len(result.Jobs))
	}
	return result, written, nil
}
