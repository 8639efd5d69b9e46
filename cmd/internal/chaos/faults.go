package chaos

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// Fault injects one fault into processes of type C, a *Cluster or a *Fleet, and repairs it.
type Fault[C any] struct {
	Name string
	Do   func(t testing.TB, c C, l *Load, rng *rand.Rand)
}

// hold waits for the duration of a fault, which is longer than an election.
func hold(t testing.TB, rng *rand.Rand) {
	select {
	case <-t.Context().Done():
	case <-time.After(2*time.Second + time.Duration(rng.Int64N(int64(3*time.Second)))):
	}
}

// cutting returns a fault of the network during which a majority continues.
func cutting(cut func(t testing.TB, c *Cluster, rng *rand.Rand)) func(testing.TB, *Cluster, *Load, *rand.Rand) {
	return func(t testing.TB, c *Cluster, l *Load, rng *rand.Rand) {
		cut(t, c, rng)
		l.AwaitProgress(t, 50)
		hold(t, rng)
		c.Net.Heal(t)
	}
}

// killing returns a fault in which a node dies and starts again after the others have
// made progress without it.
func killing(which func(t testing.TB, c *Cluster, rng *rand.Rand) int) func(testing.TB, *Cluster, *Load, *rand.Rand) {
	return func(t testing.TB, c *Cluster, l *Load, rng *rand.Rand) {
		i := which(t, c, rng)
		c.Kill(t, i)
		l.AwaitProgress(t, 50)
		c.StartNode(t, i)
	}
}

// Faults lists all faults of a Cluster by name.
var Faults = []Fault[*Cluster]{
	{"kill the leader", killing(func(t testing.TB, c *Cluster, _ *rand.Rand) int { return c.Leader(t) })},
	{"kill a node", killing(func(_ testing.TB, c *Cluster, rng *rand.Rand) int { return rng.IntN(c.Size()) })},
	{"kill all nodes", func(t testing.TB, c *Cluster, _ *Load, _ *rand.Rand) {
		for i := range c.Size() {
			c.Kill(t, i)
		}
		for i := range c.Size() {
			c.StartNode(t, i)
		}
	}},
	{"isolate the leader", cutting(func(t testing.TB, c *Cluster, _ *rand.Rand) {
		c.Net.Isolate(t, c.Leader(t))
	})},
	{"cut what the leader sends", cutting(func(t testing.TB, c *Cluster, _ *rand.Rand) {
		leader := c.Leader(t)
		for _, other := range c.others(leader) {
			c.Net.Cut(t, leader, other)
		}
	})},
	{"cut what the leader hears", cutting(func(t testing.TB, c *Cluster, _ *rand.Rand) {
		leader := c.Leader(t)
		for _, other := range c.others(leader) {
			c.Net.Cut(t, other, leader)
		}
	})},
	{"cut one link", cutting(func(t testing.TB, c *Cluster, rng *rand.Rand) {
		a := rng.IntN(c.Size())
		b := (a + 1) % c.Size()
		c.Net.Cut(t, a, b)
		c.Net.Cut(t, b, a)
	})},
	{"freeze the leader", func(t testing.TB, c *Cluster, l *Load, rng *rand.Rand) {
		i := c.Leader(t)
		c.Freeze(t, i)
		l.AwaitProgress(t, 50)
		hold(t, rng)
		c.Thaw(t, i)
	}},
	{"lose packets", func(t testing.TB, c *Cluster, l *Load, rng *rand.Rand) {
		if !c.Net.Lose(t, 0.3) {
			t.Log("no packets are lost: there is no iptables here")
			return
		}
		hold(t, rng)
		c.Net.Heal(t)
	}},
	{"restart one after the other", func(t testing.TB, c *Cluster, l *Load, _ *rand.Rand) {
		for i := range c.Size() {
			c.Terminate(t, i)
			l.AwaitProgress(t, 50)
			c.StartNode(t, i)
			c.AwaitReady(t, i)
		}
	}},
}

// Named returns the faults of a list with the given names, in that order.
func Named[C any](t testing.TB, list []Fault[C], names ...string) []Fault[C] {
	t.Helper()
	var all []Fault[C]
	for _, name := range names {
		i := slices.IndexFunc(list, func(f Fault[C]) bool { return f.Name == name })
		if i < 0 {
			t.Fatalf("there is no fault %q", name)
		}
		all = append(all, list[i])
	}
	return all
}

// Rand returns the source of a test's random numbers. Its seed is CORVO_CHAOS_SEED, or else random and in the test's log. A
// seed repeats the faults of a run, but not their effects, because these depend on the machine.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if n, err := strconv.ParseUint(os.Getenv("CORVO_CHAOS_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("the faults are drawn from CORVO_CHAOS_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// Draw returns n faults of a list: all of them in a random order, again and again.
func Draw[C any](list []Fault[C], n int, rng *rand.Rand) (drawn []Fault[C]) {
	for len(drawn) < n {
		all := slices.Clone(list)
		rng.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
		drawn = append(drawn, all...)
	}
	return drawn[:n]
}

// Inflict injects faults one after the other under a load. After each one it waits until
// writes make progress.
func Inflict[C any](t testing.TB, c C, l *Load, rng *rand.Rand, faults ...Fault[C]) {
	t.Helper()
	for i, f := range faults {
		l.AwaitProgress(t, 200)
		l.gap.take()
		t.Logf("%d/%d %s", i+1, len(faults), f.Name)
		f.Do(t, c, l, rng)
		l.AwaitProgress(t, 100)
		t.Logf("longest time without an acknowledged enqueue: %v", l.gap.take().Round(time.Millisecond))
	}
}
