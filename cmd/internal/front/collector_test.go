package front

import "testing"

func TestGCPercent(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for live, want := range map[uint64]int{0: 300, 1 * mib: 300, 21 * mib: 300, 32 * mib: 200, 64 * mib: 100, 128 * mib: 50, 256 * mib: 25, 4096 * mib: 25} {
		if got := gcPercent(live); got != want {
			t.Errorf("a heap of %d MiB may grow by %d %%, want %d", live/mib, got, want)
		}
	}
}
