package sim

import (
	"flag"
	"testing"
)

var (
	seeds = flag.Int("sim.seeds", 200, "how many histories TestSimulation plays")
	first = flag.Uint64("sim.first", 1, "the first seed")
	seed  = flag.Uint64("sim.seed", 0, "play only this seed")
	steps = flag.Int("sim.steps", 60, "entries in a history")
)

// TestSimulation plays one history a seed. To play a failed one again:
// go test ./dataplane/sim -run TestSimulation -sim.seed=N
func TestSimulation(t *testing.T) {
	t.Parallel()
	if *seed != 0 {
		play(t, *seed)
		return
	}
	for i := range *seeds {
		play(t, *first+uint64(i))
		if t.Failed() {
			return
		}
	}
}

// viewEvery says that one history in so many has a view that follows it: SQLite
// is most of the time of those.
const viewEvery = 8

func play(t *testing.T, seed uint64) {
	t.Helper()
	viewDir := ""
	if seed%viewEvery == 0 {
		viewDir = t.TempDir()
	}
	if err := Run(seed, *steps, viewDir); err != nil {
		t.Errorf("seed %d (play it again with -sim.seed=%d -sim.steps=%d): %v", seed, seed, *steps, err)
	}
}
