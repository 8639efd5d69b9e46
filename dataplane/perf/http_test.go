//go:build unix

package perf_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/dataplane"
)

// BenchmarkHTTP measures a client on the loopback, beside a handler that only decodes the request and answers
// the same client, for "Over HTTP" in docs/benchmarks.md.
func BenchmarkHTTP(b *testing.B) {
	for _, clients := range []int{1, 32, 128} {
		b.Run(fmt.Sprintf("enqueue/clients=%d", clients), func(b *testing.B) {
			c := openNode(b)
			drive(b, clients, "requests", func(caller int) error { return enqueueHTTP(c, caller) })
		})
		b.Run(fmt.Sprintf("lifecycle/clients=%d", clients), func(b *testing.B) {
			c := openNode(b)
			drive(b, clients, "jobs", func(caller int) error { return lifecycleHTTP(c, caller) })
		})
		b.Run(fmt.Sprintf("bare-handler/clients=%d", clients), func(b *testing.B) {
			c := openBare(b)
			drive(b, clients, "requests", func(caller int) error { return enqueueHTTP(c, caller) })
		})
	}
}

// serveNode opens a new bare node in dir behind a listener, until the test ends.
func serveNode(t testing.TB, dir string) (node *dataplane.Node, url string) {
	t.Helper()
	node, err := dataplane.Open(t.Context(), dataplane.Config{DataDir: dir, NodeID: "bench", Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := node.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return node, serve(t, node.Handler())
}

func serve(t testing.TB, handler http.Handler) (url string) {
	t.Helper()
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	return srv.URL
}

func openNode(b *testing.B) *client.Client {
	b.Helper()
	node, url := serveNode(b, b.TempDir())
	return dial(b, url, node.FirstKey)
}

func openBare(b *testing.B) *client.Client {
	b.Helper()
	return dial(b, serve(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req api.EnqueueRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		json.NewEncoder(w).Encode(api.EnqueueResponse{JobID: "job_0", Status: "pending"})
	})), "key")
}

func dial(b *testing.B, url, key string) *client.Client {
	b.Helper()
	c, err := client.New(url, key, client.WithRetries(0))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return c
}

func enqueueHTTP(c *client.Client, caller int) error {
	_, err := c.Enqueue(context.Background(), api.EnqueueRequest{Queue: benchQueue(caller), Payload: payload})
	return err
}

func lifecycleHTTP(c *client.Client, caller int) error {
	if err := enqueueHTTP(c, caller); err != nil {
		return err
	}
	fetched, err := c.Fetch(context.Background(), api.FetchRequest{Queues: []string{benchQueue(caller)}, WorkerID: "worker"})
	if err != nil {
		return err
	}
	if fetched == nil {
		return fmt.Errorf("nothing to fetch")
	}
	return c.Ack(context.Background(), fetched.JobID, api.AckRequest{LeaseToken: fetched.LeaseToken, Result: json.RawMessage(`{"sent":true}`)})
}
