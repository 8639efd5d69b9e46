//go:build unix

package perf_test

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/tenancy"
)

// openCellIn opens a cell of one node with its data in dir.
func openCellIn(t testing.TB, dir string) *cell.Cell {
	t.Helper()
	h, err := host.Open(host.Config{DataDir: dir, NodeID: "bench", Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close(context.Background()) })
	if err := h.Add(t.Context(), tenancy.Default, host.Spec{}); err != nil {
		t.Fatal(err)
	}
	if err := h.Ready(t.Context(), tenancy.Default); err != nil {
		t.Fatal(err)
	}
	cells, err := h.Cells(tenancy.Default)
	if err != nil {
		t.Fatal(err)
	}
	return cells[0]
}

// hangView makes the view's next flush hang until letGo is called. It holds the lock of the view's file, for
// which the flush waits a second, gives up and tries again.
func hangView(t testing.TB, dir string, c *cell.Cell) (letGo func()) {
	t.Helper()
	if err := c.View().Wait(t.Context(), 0); err != nil { // now the file exists
		t.Fatal(err)
	}
	var path string
	if err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "view.db" {
			path = p
		}
		return err
	}); err != nil || path == "" {
		t.Fatalf("there is no view below %s: %v", dir, err)
	}
	// The view's package registers the driver.
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: "mode=rw&_pragma=busy_timeout(60000)"}).String())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err == nil {
		_, err = conn.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestAViewThatHangsHoldsUpNoWrite checks that thousands of writes are acknowledged while no flush can end,
// more than a buffer between the store and its view would take.
func TestAViewThatHangsHoldsUpNoWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := openCellIn(t, dir)
	letGo := hangView(t, dir, c)
	seq, _ := c.View().Cursor()
	l := startLoad(8, func(caller int) error { return lifecycle(c, caller) })
	for l.done.Load() < 2000 {
		if err := c.Failed(); err != nil || l.failed.Load() > 0 {
			t.Fatalf("%v; %d calls failed", err, l.failed.Load())
		}
		time.Sleep(time.Millisecond)
	}
	l.stop(t)
	if now, _ := c.View().Cursor(); now != seq {
		t.Fatalf("the view went on from event %d to %d: it did not hang", seq, now)
	}
	if events, age := c.View().Lag(); events < 3*2000 || age == 0 {
		t.Errorf("the view is %d events and %v behind, of %d jobs", events, age, l.done.Load())
	}
	letGo()
	status, err := c.Status()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.View().Wait(t.Context(), status.Engine.Applied.Index); err != nil {
		t.Fatal(err)
	}
	if events, age := c.View().Lag(); events != 0 || age != 0 {
		t.Errorf("the view is %d events and %v behind, when it has shown all", events, age)
	}
}

// lagging holds the lags of a view, sampled over some time.
type lagging struct {
	figures
	ages   []time.Duration
	events uint64 // at most
}

func (l lagging) age(percent int) time.Duration {
	slices.Sort(l.ages)
	return l.ages[(len(l.ages)-1)*percent/100]
}

// watchLag measures a load and samples the lag of its view every 5 ms.
func watchLag(t testing.TB, c *cell.Cell, callers int, fn func(caller int) error) (l lagging) {
	t.Helper()
	begun, stop, stopped := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for tick := time.NewTicker(5 * time.Millisecond); ; {
			select {
			case <-tick.C:
				if events, age := c.View().Lag(); time.Since(begun) > *lasting/5 { // after the start that measure skips, too
					l.ages, l.events = append(l.ages, age), max(l.events, events)
				}
			case <-stop:
				tick.Stop()
				return
			}
		}
	}()
	f := measure(t, callers, fn)
	close(stop)
	<-stopped
	l.figures = f
	return l
}

// paced lets all callers together start calls at a rate. A late caller starts at once, so that the callers
// make up for a pause as far as they can.
func paced(rate float64, callers int, fn func(caller int) error) func(caller int) error {
	begun, each := time.Now(), time.Duration(float64(callers)/rate*1e9)
	next := make([]time.Time, callers)
	for i := range next {
		next[i] = begun.Add(each * time.Duration(i) / time.Duration(callers))
	}
	return func(caller int) error {
		time.Sleep(time.Until(next[caller]))
		next[caller] = next[caller].Add(each)
		return fn(caller)
	}
}

// TestMeasureLag measures the view's lag at the highest rate of writes and at 80 and 50 % of that, and the
// rate of writes while the view hangs, for "View lag" in docs/benchmarks.md:
//
//	go test ./dataplane/perf -run TestMeasureLag -v -timeout 30m -measure.rounds=5
//
// A round takes about half a minute.
func TestMeasureLag(t *testing.T) {
	skipUnless(t, *rounds, "measure.rounds")
	callers := []int{32, 512}
	cases := []string{"as fast as it can", "80 % of that", "50 % of that", "the view hangs"}
	type of struct{ kind, callers int }
	got := map[of][]lagging{}
	for round := range *rounds {
		for _, n := range callers {
			ceiling := 0.0
			for i, name := range cases {
				t.Run(fmt.Sprintf("round=%d/callers=%d/%s", round+1, n, name), func(t *testing.T) {
					dir := t.TempDir()
					c := openCellIn(t, dir)
					fn := func(caller int) error { return lifecycle(c, caller) }
					switch i {
					case 1:
						fn = paced(0.8*ceiling, n, fn)
					case 2:
						fn = paced(0.5*ceiling, n, fn)
					case 3:
						defer hangView(t, dir, c)()
					}
					l := watchLag(t, c, n, fn)
					if i == 0 {
						ceiling = l.rate
					}
					got[of{i, n}] = append(got[of{i, n}], l)
					t.Logf("%.0f/s, %s; lag p50 %v, p99 %v, at most %v and %d events", l.rate, l.latency(),
						l.age(50), l.age(99), l.age(100), l.events)
				})
			}
		}
	}
	rows := [][]string{{"callers", "load", "jobs/s", "p50 / p99", "lag p50 / p99", "lag at most", "events at most"}}
	for _, n := range callers {
		for i, name := range cases {
			all := got[of{i, n}]
			if len(all) == 0 {
				continue
			}
			plain := make([]figures, len(all))
			for i := range all {
				plain[i] = all[i].figures
			}
			f := middle(plain)
			lag := func(percent int) string {
				return millis(time.Duration(median(all, func(l lagging) float64 { return float64(l.age(percent)) })))
			}
			rows = append(rows, []string{
				fmt.Sprint(n), name, fmt.Sprintf("%.0f", f.rate), f.latency(), lag(50) + " / " + lag(99), lag(100),
				fmt.Sprintf("%.0f", median(all, func(l lagging) float64 { return float64(l.events) })),
			})
		}
	}
	printTable("The view's lag", rows...)
}
