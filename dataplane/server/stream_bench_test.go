package server_test

import (
	"testing"

	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/dataplane/server"
)

// BenchmarkStream measures the streams of a node: frames of 64, sixteen sent ahead of their answers. Each
// frame acks the jobs that the frame before it fetched, and enqueues as many jobs.
func BenchmarkStream(b *testing.B) {
	for name, fetch := range map[string]int32{"enqueue": 0, "steady": 64} {
		b.Run(name, func(b *testing.B) {
			n := startNode(b, func(c *server.Config) { c.StreamRate = 1_000_000 })
			url := n.rpcFront()
			s := n.stream(url, n.admin)
			jobs := make([]*workerpb.EnqueueRequest, 64)
			for i := range jobs {
				jobs[i] = &workerpb.EnqueueRequest{Queue: "q", PayloadJson: `{"to":"somebody@example.com","subject":"something that is about two hundred bytes long, as jobs are","body":"................................................................................"}`}
			}
			b.ReportAllocs()
			b.ResetTimer()
			acks := make(chan []*workerpb.AckBatchItem, 32)
			for range 16 {
				acks <- nil
			}
			go func() {
				for range b.N {
					m := &workerpb.StreamLifecycleRequest{Queues: []string{"q"}, WorkerId: "w", FetchCount: fetch, Acks: <-acks, Enqueues: jobs}
					if s.Send(m) != nil {
						return
					}
				}
			}()
			for range b.N {
				out, err := s.Receive()
				if err != nil || out.Error != "" {
					b.Fatal(out, err)
				}
				done := make([]*workerpb.AckBatchItem, len(out.Jobs))
				for i, j := range out.Jobs {
					done[i] = &workerpb.AckBatchItem{JobId: j.JobId, LeaseToken: j.LeaseToken}
				}
				acks <- done
			}
			b.ReportMetric(float64(b.N*64)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}
