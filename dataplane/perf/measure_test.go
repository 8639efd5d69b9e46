//go:build unix

package perf_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The flags of the tests named TestMeasure. Each of these tests compares several cases in turn, round after
// round, and prints a table of the medians. It is skipped without the flag that it names.
var (
	rounds    = flag.Int("measure.rounds", 0, "how often to measure everything; 0 = skip the measurements")
	lasting   = flag.Duration("measure.for", 3*time.Second, "how long to measure each case")
	heldJobs  = flag.Int("measure.jobs", 1_000_000, "jobs in the store, half of them completed, where a measurement has any")
	unflushed = flag.Int("measure.replay", 48, "MiB of log since the last snapshot when a process is killed; 0 = whatever there is")
	minutes   = flag.Int("measure.minutes", 0, "how long to watch the disk; 0 = skip that")
	rate      = flag.Int("measure.rate", 1000, "lifecycles a second while the disk is watched")
)

func skipUnless(t *testing.T, n int, name string) {
	t.Helper()
	if n <= 0 {
		t.Skipf("a measurement: run it alone, with -v -%s=5", name)
	}
}

// load is a set of callers that repeat a call, each as soon as it has an answer. Failed calls, such as those
// at a change of leader, are counted and not timed.
type load struct {
	begun  time.Time
	ending atomic.Bool
	group  sync.WaitGroup
	shots  [][]shot // by caller
	done   atomic.Int64
	failed atomic.Int64
	why    atomic.Pointer[error] // error of the first failed call
}

// shot is one finished call.
type shot struct{ ended, took time.Duration } // ended counts from the start of the load

func startLoad(callers int, fn func(caller int) error) *load {
	l := &load{begun: time.Now(), shots: make([][]shot, callers)}
	for caller := range callers {
		l.group.Go(func() {
			for !l.ending.Load() {
				begin := time.Now()
				err := fn(caller)
				if errors.Is(err, errNotTimed) {
					continue
				}
				if err != nil {
					l.failed.Add(1)
					l.why.CompareAndSwap(nil, &err)
					time.Sleep(time.Millisecond)
					continue
				}
				end := time.Now()
				l.shots[caller] = append(l.shots[caller], shot{end.Sub(l.begun), end.Sub(begin)})
				l.done.Add(1)
			}
		})
	}
	return l
}

// stop ends the load. Only then may figures be read.
func (l *load) stop(t testing.TB) {
	t.Helper()
	l.ending.Store(true)
	l.group.Wait()
	if n := l.failed.Load(); n > 0 {
		t.Logf("%d calls failed, %d did not; the first: %v", n, l.done.Load(), *l.why.Load())
	}
}

// figures are the results of a load over some time.
type figures struct {
	rate     float64 // a second
	p50, p99 time.Duration
	cpu      time.Duration // of the whole process, user and system, for each call
}

// between returns the figures of the calls that ended between two times.
func (l *load) between(t testing.TB, from, to time.Time) figures {
	t.Helper()
	var all []time.Duration
	begin, end := from.Sub(l.begun), to.Sub(l.begun)
	for _, shots := range l.shots {
		for _, s := range shots {
			if s.ended >= begin && s.ended < end {
				all = append(all, s.took)
			}
		}
	}
	if len(all) == 0 {
		t.Logf("no call ended in the %v from %v on", to.Sub(from), begin)
		return figures{}
	}
	slices.Sort(all)
	return figures{rate: float64(len(all)) / to.Sub(from).Seconds(), p50: all[len(all)/2], p99: all[len(all)*99/100]}
}

// measure lets callers call fn, and skips the unsteady start.
func measure(t testing.TB, callers int, fn func(caller int) error) figures {
	t.Helper()
	l := startLoad(callers, fn)
	time.Sleep(*lasting / 5)
	from, used := time.Now(), cpuTime(t)
	time.Sleep(*lasting)
	to := time.Now()
	used = cpuTime(t) - used
	l.stop(t)
	f := l.between(t, from, to)
	f.cpu = time.Duration(float64(used) / max(1, f.rate*to.Sub(from).Seconds()))
	return f
}

// median returns the middle one of the values that of returns for all elements.
func median[T any](all []T, of func(T) float64) float64 {
	values := make([]float64, len(all))
	for i, one := range all {
		values[i] = of(one)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func rateOf(f figures) float64 { return f.rate }
func cpuOf(f figures) float64  { return float64(f.cpu) }

// middle returns the medians over rounds, each figure on its own.
func middle(all []figures) figures {
	of := func(f func(figures) time.Duration) time.Duration {
		return time.Duration(median(all, func(one figures) float64 { return float64(f(one)) }))
	}
	return figures{
		rate: median(all, rateOf),
		p50:  of(func(f figures) time.Duration { return f.p50 }),
		p99:  of(func(f figures) time.Duration { return f.p99 }),
		cpu:  of(func(f figures) time.Duration { return f.cpu }),
	}
}

// ratio returns the median of the ratios of a's rate to b's, round by round.
func ratio(a, b []figures) string { return ratioOf(a, b, rateOf) }

// ratioOf returns the median of the ratios of another figure.
func ratioOf(a, b []figures, of func(figures) float64) string {
	if len(a) == 0 || len(a) != len(b) {
		return ""
	}
	all := make([]float64, len(a))
	for i := range a {
		all[i] = of(a[i]) / of(b[i])
	}
	return fmt.Sprintf("%.2f", median(all, func(r float64) float64 { return r }))
}

// printTable prints rows as a Markdown table, the head first.
func printTable(title string, rows ...[]string) {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n\n", title)
	for i, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	fmt.Println(b.String())
}

func (f figures) latency() string {
	return fmt.Sprintf("%s / %s", millis(f.p50), millis(f.p99))
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000)
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f", float64(n)/(1<<20)) }

// sizeOf returns the total size of the files below a directory. Files that disappear meanwhile do not count.
func sizeOf(dir ...string) (total int64) {
	_ = filepath.WalkDir(filepath.Join(dir...), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total
}
