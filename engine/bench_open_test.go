package engine_test

import (
	"testing"
)

// BenchmarkOpen measures the time from a closed directory to a leader that serves.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	openNode(b, dir).shut(b)
	b.ResetTimer()
	for range b.N {
		n := openNode(b, dir)
		b.StopTimer()
		n.shut(b)
		b.StartTimer()
	}
}
