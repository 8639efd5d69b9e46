package server_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"

	"github.com/corvo/corvo/api"
)

// BenchmarkEnqueue measures an enqueue over HTTP, including the Go client.
func BenchmarkEnqueue(b *testing.B) {
	n := startNode(b, nil)
	c := n.client(n.admin)
	payload := json.RawMessage(`{"to":"user@example.com","template":"welcome"}`)
	b.ReportAllocs()
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := c.Enqueue(context.Background(), api.EnqueueRequest{Queue: "q", Payload: payload}); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkLifecycle measures enqueue, fetch and ack over HTTP, including the Go client.
func BenchmarkLifecycle(b *testing.B) {
	n := startNode(b, nil)
	c := n.client(n.admin)
	var empty atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := c.Enqueue(context.Background(), api.EnqueueRequest{Queue: "q"}); err != nil {
				b.Error(err)
			}
			f, err := c.Fetch(context.Background(), api.FetchRequest{Queues: []string{"q"}, WorkerID: "w"})
			if err != nil {
				b.Error(err)
			} else if f == nil {
				empty.Add(1)
			} else if err := c.Ack(context.Background(), f.JobID, api.AckRequest{LeaseToken: f.LeaseToken}); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(empty.Load()), "empty")
}
