package chaos

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"testing"
	"time"
)

// ClockJump sets the machine's clock forward or back for all nodes at once, and then right
// again. It is not in Faults, because it affects everything else on the machine. The clock
// of a single node cannot be set, because a kernel has one clock; tests in virtual time do
// that.
var ClockJump = Fault[*Cluster]{"jump the clock", func(t testing.TB, _ *Cluster, l *Load, rng *rand.Rand) {
	begun := time.Now()
	by := time.Duration(5+rng.IntN(60)) * time.Second
	if rng.IntN(2) == 0 {
		by = -by
	}
	t.Logf("by %v", by)
	set(t, begun.Add(by))
	// The monotonic clock does not jump, so it gives the right time.
	defer func() { set(t, begun.Round(0).Add(time.Since(begun))) }()
	l.AwaitProgress(t, 50)
	hold(t, rng)
}}

func set(t testing.TB, to time.Time) {
	t.Helper()
	at := fmt.Sprintf("@%d.%09d", to.Unix(), to.Nanosecond())
	if out, err := exec.Command("date", "-s", at).CombinedOutput(); err != nil {
		t.Fatalf("date -s %s: %v\n%s", at, err, out)
	}
}
