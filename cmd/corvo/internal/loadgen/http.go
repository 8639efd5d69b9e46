package loadgen

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// fetchWait is the fetch deadline, in seconds, of a frame that waits.
const fetchWait = 2

// ackResult is the result of every job.
var ackResult = json.RawMessage(`{"ok":true}`)

// webClient returns an HTTP client that keeps enough idle connections for all clients.
func webClient(clients int) *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, 2*clients+backlogLines // twice as many, because an enqueue may run beside an ack
	t.DisableCompression = true
	return &http.Client{Transport: t}
}

// httpConn speaks HTTP and JSON with the Go SDK, so that the measurement includes the SDK's cost to a client.
type httpConn struct {
	api    *client.Client
	worker string
	single bool // a request for each job
}

func (h *httpConn) close() {}

func (h *httpConn) do(ctx context.Context, f frame) (answer, error) {
	if len(f.enqueue) == 0 {
		return h.serve(ctx, f)
	}
	if len(f.acks) == 0 && f.fetch == 0 {
		n, err := h.enqueue(ctx, f)
		return answer{enqueued: n}, err
	}
	var enqueued int
	var failed error
	var beside sync.WaitGroup
	beside.Go(func() { enqueued, failed = h.enqueue(ctx, f) })
	a, err := h.serve(ctx, f)
	beside.Wait()
	a.enqueued = enqueued
	return a, errors.Join(err, failed)
}

func (h *httpConn) enqueue(ctx context.Context, f frame) (int, error) {
	if h.single {
		if _, err := h.api.Enqueue(ctx, f.enqueue[0]); err != nil {
			return 0, err
		}
		return 1, nil
	}
	out, err := h.api.EnqueueBatch(ctx, f.enqueue)
	return len(out.JobIDs), err
}

// serve acknowledges the frame's jobs and then fetches, as a worker does.
func (h *httpConn) serve(ctx context.Context, f frame) (a answer, err error) {
	if len(f.acks) > 0 {
		if a.acked, a.refused, err = h.ack(ctx, f.acks); err != nil {
			return a, err
		}
	}
	if f.fetch > 0 {
		a.leased, err = h.fetch(ctx, f)
	}
	return a, err
}

func (h *httpConn) ack(ctx context.Context, acks []lease) (acked int, refused []error, err error) {
	if h.single {
		l := acks[0]
		if err := h.api.Ack(ctx, l.id, api.AckRequest{LeaseToken: l.token, Result: ackResult}); err != nil {
			return 0, nil, err
		}
		return 1, nil, nil
	}
	out, err := h.api.AckBatch(ctx, ackItems(acks))
	return out.Acked, refusals(out.Errors), err
}

// ackItems converts leases to acks.
func ackItems(acks []lease) []api.AckItem {
	all := make([]api.AckItem, len(acks))
	for i, l := range acks {
		all[i] = api.AckItem{JobID: l.id, AckRequest: api.AckRequest{LeaseToken: l.token, Result: ackResult}}
	}
	return all
}

// refusals converts the errors of single items.
func refusals(items []api.ItemError) (all []error) {
	for _, e := range items {
		all = append(all, &api.Error{Code: e.Code, Message: e.Error})
	}
	return all
}

func (h *httpConn) fetch(ctx context.Context, f frame) ([]lease, error) {
	wait := 0
	if f.wait {
		wait = fetchWait
	}
	req := api.FetchRequest{Queues: []string{f.queue}, WorkerID: h.worker, Timeout: &wait}
	if h.single {
		j, err := h.api.Fetch(ctx, req)
		if err != nil || j == nil {
			return nil, err
		}
		return []lease{leaseOf(j.JobID, j.LeaseToken, j.Payload)}, nil
	}
	jobs, err := h.api.FetchBatch(ctx, api.FetchBatchRequest{FetchRequest: req, Count: &f.fetch})
	leased := make([]lease, len(jobs))
	for i := range jobs {
		leased[i] = leaseOf(jobs[i].JobID, jobs[i].LeaseToken, jobs[i].Payload)
	}
	return leased, err
}

func leaseOf(id, token string, payload []byte) lease {
	l := lease{id: id, token: token, at: before}
	if at, ok := enqueuedAt(payload); ok && at > 0 {
		l.at = at
	}
	return l
}
