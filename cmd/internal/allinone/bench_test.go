package allinone

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/dataplane"
)

// BenchmarkEnqueue measures the cost of the gateway: it sends the same request to the public port of a cloud
// and to a bare node.
func BenchmarkEnqueue(b *testing.B) {
	for _, clients := range []int{1, 32} {
		for name, open := range map[string]func(*testing.B) (string, string){"gateway": openCloud, "node": openNode} {
			b.Run(fmt.Sprintf("%s/clients=%d", name, clients), func(b *testing.B) {
				endpoint, key := open(b)
				c, err := client.New(endpoint, key)
				if err != nil {
					b.Fatal(err)
				}
				defer c.Close()
				payload := make([]byte, 200)
				for i := range payload {
					payload[i] = '1'
				}
				b.SetParallelism(max(1, clients/2))
				b.ReportAllocs()
				b.ResetTimer()
				enqueue := func() {
					if _, err := c.Enqueue(context.Background(), api.EnqueueRequest{Queue: "q", Payload: payload}); err != nil {
						b.Error(err)
					}
				}
				if clients == 1 {
					for range b.N {
						enqueue()
					}
				} else {
					b.RunParallel(func(p *testing.PB) {
						for p.Next() {
							enqueue()
						}
					})
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
			})
		}
	}
}

func openCloud(b *testing.B) (endpoint, key string) {
	c := start(b, nil)
	return c.Endpoint, c.Access.APIKey
}

func openNode(b *testing.B) (endpoint, key string) {
	ctx := context.Background()
	node, err := dataplane.Open(ctx, dataplane.Config{
		DataDir: b.TempDir(), NodeID: "n", Version: "test", Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		b.Fatal(err)
	}
	front := httptest.NewServer(node.Handler())
	b.Cleanup(func() {
		node.Drain()
		front.Close()
		if err := node.Close(ctx); err != nil {
			b.Error(err)
		}
	})
	return front.URL, node.FirstKey
}
