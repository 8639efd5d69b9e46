package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/billing/money"
)

// strangersPayload is the payload of each job of the other tenant.
const strangersPayload = `{"stranger":true}`

// stranger is a tenant of another namespace who works at the same gateways and in a queue of the same name.
type stranger struct {
	id      string
	clients [gateways]*client.Client
	jobs    int // acknowledged deliveries of its own jobs
}

// StartStranger creates another namespace, and lets a worker of it work along with the load until Finish. The worker must
// never get a job of the load.
func (f *Fleet) StartStranger(t testing.TB, l *Load) {
	t.Helper()
	id, key := f.NewNamespace(t, "stranger", 1)
	s := &stranger{id: id}
	for i := range s.clients {
		s.clients[i] = newClient(t, f.gatewayURL(i), key, newTransport())
	}
	f.stranger = s
	l.run(func(ctx context.Context, n int) { s.work(ctx, l, n) })
}

func (s *stranger) any() *client.Client { return s.clients[rand.IntN(len(s.clients))] }

// work enqueues, fetches and acks a job of its own namespace. Each twentieth time, it also asks for a job of the load.
func (s *stranger) work(ctx context.Context, l *Load, n int) {
	defer pause(ctx)
	_, _ = s.any().Enqueue(ctx, api.EnqueueRequest{Queue: queue, Payload: json.RawMessage(strangersPayload)}) // another try follows
	wait := 0
	job, err := s.any().Fetch(ctx, api.FetchRequest{Queues: []string{queue}, WorkerID: "stranger", Timeout: &wait, LeaseDuration: lease})
	if err == nil && job != nil {
		if !bytes.Equal(job.Payload, []byte(strangersPayload)) {
			l.History.violate("another namespace got job %s with the payload %s", job.JobID, job.Payload)
		}
		if s.any().Ack(ctx, job.JobID, api.AckRequest{LeaseToken: job.LeaseToken}) == nil {
			s.jobs++
		}
	}
	if n%20 != 0 {
		return
	}
	known := l.History.with(enqueued)
	if len(known) == 0 {
		return
	}
	id := known[rand.IntN(len(known))]
	if job, err := s.any().Job(ctx, id, client.Read{}); err == nil {
		l.History.violate("another namespace sees job %s: %+v", id, job)
	}
}

// CheckStranger checks after Finish that the other tenant has worked, finds no job of the load, and is charged for no
// report of it.
func (f *Fleet) CheckStranger(t testing.TB, l *Load) {
	t.Helper()
	s := f.stranger
	if s.jobs == 0 {
		t.Error("the worker of the other namespace got no job")
	}
	for i, id := range l.History.with(enqueued) {
		f.await(t, "answer to the other namespace", func(ctx context.Context) bool {
			job, err := s.clients[i%gateways].Job(ctx, id, client.Read{})
			if err == nil {
				t.Fatalf("another namespace sees job %s: %+v", id, job)
			}
			return api.CodeOf(err) == api.NotFound
		})
	}
	u := do(t, f, "usage of the other namespace", func(ctx context.Context) (api.UsageReport, error) {
		return f.Operator().NamespaceUsage(ctx, s.id, client.UsageQuery{})
	})
	if u.Totals.Reports != (money.Count{}) || u.Totals.InputTokens != (money.Count{}) {
		t.Errorf("the other namespace reported no usage and is charged for %v reports with %v tokens", u.Totals.Reports, u.Totals.InputTokens)
	}
}
