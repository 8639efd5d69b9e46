//go:build unix

package perf_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/corvo/corvo/dataplane/cell"
)

// fairnessKeys are the numbers of fairness keys among which the jobs of a queue alternate.
var fairnessKeys = []int{0, 1, 100, 10_000}

// fairLifecycles runs lifecycles of jobs with that many fairness keys; 0 = none.
func fairLifecycles(c *cell.Cell, keys int) func(caller int) error {
	var turn atomic.Int64
	return func(caller int) error {
		queue := benchQueue(caller)
		o := enqueueOp(c.NewID(queue), queue)
		if keys > 0 {
			o.Jobs[0].FairnessKey = fmt.Sprint("tenant-", turn.Add(1)%int64(keys))
		}
		return lifecycleOf(c, o, queue)
	}
}

// BenchmarkFairness runs the whole path with fairness keys, for profiles. Its cases run one after the other,
// so their figures can be compared only on a quiet machine.
func BenchmarkFairness(b *testing.B) {
	for _, keys := range fairnessKeys {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			c := openCell(b)
			drive(b, 512, "jobs", fairLifecycles(c, keys))
			reportLag(b, c)
		})
	}
}

// TestMeasureFairness measures the same cases in turn, for "Cost of fairness keys" in docs/benchmarks.md.
func TestMeasureFairness(t *testing.T) {
	skipUnless(t, *rounds, "measure.rounds")
	all := map[int][]figures{}
	for range *rounds {
		for _, keys := range fairnessKeys {
			t.Run(fmt.Sprintf("keys=%d", keys), func(t *testing.T) {
				all[keys] = append(all[keys], measure(t, 512, fairLifecycles(openCell(t), keys)))
			})
		}
	}
	table := [][]string{{"keys", "jobs/s", "p50 / p99", "cpu", "jobs/s to none", "cpu to none"}}
	for _, keys := range fairnessKeys {
		f := middle(all[keys])
		table = append(table, []string{fmt.Sprint(keys), fmt.Sprintf("%.0f", f.rate), f.latency(),
			fmt.Sprintf("%.1f µs", float64(f.cpu.Nanoseconds())/1000), ratio(all[keys], all[0]), ratioOf(all[keys], all[0], cpuOf)})
	}
	printTable("Lifecycles in process with fairness keys, 512 callers", table...)
}
