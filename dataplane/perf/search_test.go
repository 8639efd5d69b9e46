//go:build unix

package perf_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/view"
	"github.com/corvo/corvo/engine"
)

// measuredSearches return pages of 50. The indexed ones follow an index, and the others examine jobs one by
// one until their time is over.
var measuredSearches = []struct {
	name    string
	indexed bool
	q       view.Query
}{
	{"queue and state", true, view.Query{Queue: "waiting", States: []job.State{job.Pending}}},
	{"queue", true, view.Query{Queue: "done"}},
	{"state", true, view.Query{States: []job.State{job.Completed}}},
	{"all", true, view.Query{}},
	{"all, oldest first", true, view.Query{Order: view.Ascending}},
	{"queue and state, created before", true, view.Query{Queue: "done", States: []job.State{job.Completed}, CreatedBefore: time.Now().Add(time.Hour)}},
	{"a word that all have", false, view.Query{Words: "user"}},
	{"sorted by start", false, view.Query{Sort: view.SortStarted}},
	{"a text that no payload has", false, view.Query{PayloadContains: "zz"}},
	{"a condition that no payload meets", false, view.Query{PayloadJQ: `.n == "zz"`}},
}

// searches returns a function that calls Search. Each caller runs the queries in turn and follows the cursor
// of each through its pages.
func searches(t *testing.T, c *cell.Cell, queries []view.Query) func(caller int) error {
	t.Helper()
	turns := make([][]view.Query, 64)
	return func(caller int) error {
		if len(turns[caller]) == 0 {
			turns[caller] = slices.Clone(queries)
		}
		q := turns[caller][0]
		page, err := c.View().Search(t.Context(), q)
		if err != nil {
			return err
		}
		turns[caller] = turns[caller][1:]
		if q.Cursor = page.Cursor; page.HasMore {
			turns[caller] = append(turns[caller], q)
		}
		return nil
	}
}

// TestMeasureSearch measures searches among -measure.jobs jobs, each alone, and how long acks take while all
// searches run at once, for "Searches" in docs/benchmarks.md.
func TestMeasureSearch(t *testing.T) {
	skipUnless(t, *rounds, "measure.rounds")
	c := openNodes(t, 1, engine.Tuning{}).all[0].Cells()[0]
	begun := time.Now()
	fillMixed(t, c, *heldJobs)
	t.Logf("%d jobs made and shown in %v", *heldJobs, time.Since(begun).Round(time.Second))
	rows := [][]string{{"the search", "p50 / p99", "pages/s"}}
	var all []view.Query
	for _, s := range measuredSearches {
		all = append(all, s.q)
		var runs []figures
		for range *rounds {
			runs = append(runs, measure(t, 1, searches(t, c, []view.Query{s.q})))
		}
		f := middle(runs)
		rows = append(rows, []string{s.name, f.latency(), fmt.Sprintf("%.0f", f.rate)})
		if s.indexed && f.p99 > 10*time.Millisecond {
			t.Errorf("%s: p99 %v, want at most 10ms", s.name, f.p99)
		}
	}
	printTable(fmt.Sprintf("Pages of 50 among %d jobs", *heldJobs), rows...)

	var calm, storm []figures
	var pages []float64
	for range *rounds {
		calm = append(calm, measure(t, bulkCallers, lifecycleAcks(t, c)))
		l := startLoad(bulkCallers, searches(t, c, all))
		storm = append(storm, measure(t, bulkCallers, lifecycleAcks(t, c)))
		took := time.Since(l.begun)
		l.stop(t)
		pages = append(pages, float64(l.done.Load())/took.Seconds())
	}
	alone, beside := middle(calm), middle(storm)
	printTable(fmt.Sprintf("Acks of %d callers among %d jobs, and beside as many that search", bulkCallers, *heldJobs),
		[]string{"", "acks/s", "p50 / p99", "pages/s"},
		[]string{"alone", fmt.Sprintf("%.0f", alone.rate), alone.latency(), ""},
		[]string{"in the storm", fmt.Sprintf("%.0f", beside.rate), beside.latency(), fmt.Sprintf("%.0f", median(pages, func(f float64) float64 { return f }))})
}
