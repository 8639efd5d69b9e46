//go:build unix

package perf_test

import (
	"io"
	"testing"
	"time"

	"github.com/corvo/corvo/dataplane/backup"
	"github.com/corvo/corvo/dataplane/state"
)

// TestMeasureBackup measures 32 callers while backups of the store are taken one after the other, and while
// none is taken, in turn. docs/benchmarks.md has no figure of it yet:
//
//	go test ./dataplane/perf -run TestMeasureBackup -v -measure.rounds=5 -measure.jobs=100000
func TestMeasureBackup(t *testing.T) {
	skipUnless(t, *rounds, "measure.rounds")
	c := openCell(t)
	fillMixed(t, c, *heldJobs)
	var bytes uint64
	take := func() time.Duration {
		begun := time.Now()
		cut, err := backup.Take(t.Context(), []*state.Store{c.State()})
		if err != nil {
			t.Fatal(err)
		}
		of, err := cut.Write(io.Discard, "default", "v", begun)
		if err != nil {
			t.Fatal(err)
		}
		if err := cut.Close(); err != nil {
			t.Fatal(err)
		}
		bytes = of.Bytes
		return time.Since(begun)
	}
	t.Logf("alone, a backup of %d jobs takes %v and has %d bytes", *heldJobs, take(), bytes)
	var none, some []figures
	var took []time.Duration
	for range *rounds {
		none = append(none, measure(t, 32, func(caller int) error { return lifecycle(c, caller) }))
		end, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for {
				select {
				case <-end:
					return
				default:
					took = append(took, take())
				}
			}
		}()
		some = append(some, measure(t, 32, func(caller int) error { return lifecycle(c, caller) }))
		close(end)
		<-ended
	}
	tell := func(what string, all []figures) {
		t.Logf("%s: %.0f jobs/s, p50 %.2f ms, p99 %.2f ms", what,
			median(all, func(f figures) float64 { return f.rate }),
			median(all, func(f figures) float64 { return f.p50.Seconds() * 1e3 }),
			median(all, func(f figures) float64 { return f.p99.Seconds() * 1e3 }))
	}
	tell("none", none)
	tell("backups all the time", some)
	t.Logf("%d backups, the median took %.2f s", len(took), median(took, time.Duration.Seconds))
}
