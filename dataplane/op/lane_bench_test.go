package op_test

import (
	"fmt"
	"testing"

	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// BenchmarkLanes takes jobs through enqueue, fetch and ack, 64 in an entry. The backlog has two jobs for each
// fairness key, and at least 1000. The cases differ in the number of keys, and in the number of further keys
// whose jobs a rule keeps back.
func BenchmarkLanes(b *testing.B) {
	for _, c := range []struct{ keys, kept int }{{0, 0}, {1, 0}, {100, 0}, {10_000, 0}, {1, 10_000}} {
		b.Run(fmt.Sprintf("keys=%d/kept=%d", c.keys, c.kept), func(b *testing.B) {
			const size = 64
			w := newWorld(b)
			n := 0
			jobs := func(count int) *op.Enqueue {
				o := w.benchJobs("q", count)
				for _, nj := range o.Jobs {
					if c.keys > 0 {
						nj.FairnessKey = fmt.Sprint("k", n%c.keys)
						n++
					}
				}
				return o
			}
			for i := 0; i < c.kept; i += 500 {
				o := w.benchJobs("q", 500)
				for j, nj := range o.Jobs {
					nj.FairnessKey = fmt.Sprint("kept", i+j)
				}
				w.apply(o)
				w.log = nil
			}
			if c.kept > 0 {
				w.apply(w.rule(&state.LimitRule{Queue: "q", Key: "*", Paused: true}), w.rule(&state.LimitRule{Queue: "q", Key: "k0"}))
			}
			for left := max(2*c.keys, 1000); left > 0; left -= 500 {
				w.apply(jobs(min(left, 500)))
				w.log = nil
			}
			b.ReportAllocs()
			b.ResetTimer()
			for done := 0; done < b.N; done += size {
				b.StopTimer()
				entries := w.entries(size, size, func(int) op.Op { return jobs(1) })
				fetches := w.entries(size, size, func(int) op.Op { return w.fetch("q", 1) })
				b.StartTimer()
				w.applyAll(entries)
				fetched := w.applyAll(fetches)
				b.StopTimer()
				w.clockNs += 1e8
				acks := w.entries(size, size, func(i int) op.Op { return ack(fetched[i].(*op.FetchResult).Jobs...) })
				b.StartTimer()
				w.applyAll(acks)
			}
		})
	}
}
