package sim

import (
	"flag"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo/corvo/dataplane/op"
)

var (
	seeds = flag.Int("sim.seeds", 200, "how many histories TestSimulation plays")
	first = flag.Uint64("sim.first", 1, "the first seed")
	long  = flag.Duration("sim.for", 0, "play for so long, however many histories that is")
	seed  = flag.Uint64("sim.seed", 0, "play only this seed")
	steps = flag.Int("sim.steps", 60, "steps of a history")
)

// TestSimulation plays one history per seed, as many at a time as there are processors. Each history runs in
// one goroutine. To replay a failed one:
// go test ./dataplane/sim -run TestSimulation -sim.seed=N
func TestSimulation(t *testing.T) {
	t.Parallel()
	if *seed != 0 {
		play(t, *seed)
		return
	}
	var next atomic.Uint64
	var mu sync.Mutex
	played, entries, kinds, views := 0, 0, map[string]int{}, ViewOutcome{}
	begun := time.Now()
	more := func(i uint64) bool {
		if *long > 0 {
			return time.Since(begun) < *long
		}
		return i < uint64(*seeds)
	}
	var players sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		players.Go(func() {
			for i := next.Add(1) - 1; more(i) && !t.Failed(); i = next.Add(1) - 1 {
				out := play(t, *first+i)
				mu.Lock()
				played++
				entries += out.Entries
				for kind, n := range out.Kinds {
					kinds[kind] += n
				}
				views = views.plus(out.View)
				mu.Unlock()
			}
		})
	}
	players.Wait()
	t.Logf("%d histories from seed %d on, %d entries, ops %v, views %+v", played, *first, entries, kinds, views)
	if played >= 100 && !t.Failed() && (views.Old == 0 || views.Trimmed == 0 || views.OldFile == 0) {
		t.Errorf("not everything befell a view: %+v", views)
	}
	for _, k := range op.Kinds() {
		if kinds[k.Name] == 0 && played >= 100 && !travels(k) && !t.Failed() {
			t.Errorf("no history had a %s", k.Name)
		}
	}
}

func (o ViewOutcome) plus(more ViewOutcome) ViewOutcome {
	return ViewOutcome{Reads: o.Reads + more.Reads, Old: o.Old + more.Old, Trimmed: o.Trimmed + more.Trimmed, OldFile: o.OldFile + more.OldFile}
}

// viewEvery is the number of histories of which one has a view. SQLite takes most of the time of a history
// with a view.
const viewEvery = 16

func play(t *testing.T, seed uint64) Outcome {
	t.Helper()
	viewDir := ""
	if seed%viewEvery == 0 {
		viewDir = t.TempDir()
	}
	out, err := Run(seed, *steps, viewDir)
	if err != nil {
		t.Errorf("seed %d (play it again with -sim.seed=%d -sim.steps=%d): %v", seed, seed, *steps, err)
	}
	return out
}

// travels reports whether ops of a kind occur only inside a Deliver.
func travels(k *op.Kind) bool {
	return slices.Contains([]string{"arrive", "create-jobs", "count-member", "watch-job", "settle-dependency", "notify-webhooks", "open-bulk", "count-bulk", "return-budget", "grant-budget"}, k.Name)
}

// The workload must be able to draw every kind of op.
func TestEveryKindIsDrawn(t *testing.T) {
	t.Parallel()
	drawn := map[string]bool{again: true}
	for _, d := range draws() {
		drawn[d.kind] = true
	}
	for _, k := range op.Kinds() {
		if !drawn[k.Name] && !travels(k) {
			t.Errorf("the workload has no row for %s", k.Name)
		}
		delete(drawn, k.Name)
	}
	if delete(drawn, again); len(drawn) > 0 {
		t.Errorf("the workload has rows for what is no op: %v", drawn)
	}
}

// One seed must give the same history, byte for byte, and another seed another one.
func TestTranscriptRepeats(t *testing.T) {
	t.Parallel()
	seen := map[[32]byte]uint64{}
	for seed := uint64(1); seed <= 5; seed++ {
		a, err := Run(seed, 40, "")
		if err != nil {
			t.Fatal(err)
		}
		b, err := Run(seed, 40, "")
		if err != nil {
			t.Fatal(err)
		}
		if a.Transcript != b.Transcript {
			t.Errorf("seed %d: %x, and %x when played again", seed, a.Transcript, b.Transcript)
		}
		if other, known := seen[a.Transcript]; known {
			t.Errorf("seeds %d and %d are the same history", other, seed)
		}
		seen[a.Transcript] = seed
	}
}
