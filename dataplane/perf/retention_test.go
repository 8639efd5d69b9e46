//go:build unix

package perf_test

import (
	"errors"
	"testing"
	"time"

	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/engine"
)

// TestMeasureRetention measures how long acks take while a shorter retention removes the completed jobs, half
// of -measure.jobs, and the speed of the removal. Its figures are in "Processor profile" in
// docs/benchmarks.md.
func TestMeasureRetention(t *testing.T) {
	skipUnless(t, *rounds, "measure.rounds")
	var before, during []figures
	var rates []float64
	for range *rounds {
		c := openNodes(t, 1, engine.Tuning{}).all[0].Cells()[0]
		fillMixed(t, c, *heldJobs)
		before = append(before, measure(t, bulkCallers, lifecycleAcks(t, c)))
		l := startLoad(bulkCallers, lifecycleAcks(t, c))
		time.Sleep(*lasting / 5)
		from := time.Now()
		freeCompleted(t, c, "done")
		to := time.Now()
		l.stop(t)
		during = append(during, l.between(t, from, to))
		rates = append(rates, float64(*heldJobs/2)/to.Sub(from).Seconds())
	}
	alone, beside := middle(before), middle(during)
	t.Logf("%d jobs: %.0f removed a second; acks of %d callers p50 %v, p99 %v without, p50 %v, p99 %v beside it; lifecycles a second %.0f without, %.0f beside it", *heldJobs/2,
		median(rates, func(f float64) float64 { return f }), bulkCallers, alone.p50, alone.p99, beside.p50, beside.p99, alone.rate, beside.rate)
}

// freeCompleted gives a queue the shortest retention and waits until it has no completed job.
func freeCompleted(t *testing.T, c *cell.Cell, queue string) {
	t.Helper()
	o := &op.SetQueue{Meta: &op.Meta{}, Queue: queue, Retention: &job.Retention{CompletedMs: 1}}
	if _, _, err := cell.Propose[*op.SetQueueResult](t.Context(), c, o); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		v := c.State().Snapshot()
		q, err := v.Queue(queue)
		if err = errors.Join(err, v.Close()); err != nil {
			t.Fatal(err)
		}
		if q.GetInState()[job.Completed] == 0 {
			return
		}
	}
}
