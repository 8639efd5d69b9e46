package raftlog

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// growth describes how a log under constant load is truncated, and how much disk each kind may take once its
// background work has caught up; the delay depends on the machine. The multiples refer to trailing + step,
// the most that the log ever holds.
var growth = struct {
	trailing, step, entry, rounds int
	fixed                         map[Kind]int64 // space that a kind takes even for a small log
	multiple                      map[Kind]int64
}{
	trailing: 1 << 20, step: 3 << 20, entry: 32 << 10, rounds: 40, // they append 30 times the largest size of the log, and more than any bound
	fixed:    map[Kind]int64{WAL: 2 << 20, Pebble: 9 * pebbleMemTable, Bolt: 16 << 20, Badger: 2 * (badgerMemTables + badgerTables) * badgerMemTable},
	multiple: map[Kind]int64{WAL: 2, Pebble: 3, Bolt: 3, Badger: 4},
}

// TestGrowth checks that a log that is appended to and truncated repeatedly stays within bounds, because the
// space is freed or reused.
func TestGrowth(t *testing.T) {
	t.Parallel()
	for _, kind := range Kinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			g, kind := growth, Kind(kind)
			f := Factory{SegmentBytes: 1 << 20, NoSync: true, Logger: hclog.NewNullLogger()}
			s, err := f.Open(t.TempDir(), kind)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			bound := g.fixed[kind] + g.multiple[kind]*int64(g.trailing+g.step)
			noise := make([]byte, 2*g.entry) // does not compress
			_, _ = rand.Read(noise)          // never fails
			var next uint64 = 1
			var most int64
			for range g.rounds {
				for range g.step / g.entry {
					from := next * 7 % uint64(g.entry)
					store(t, s, []*raft.Log{{Index: next, Data: noise[from : from+uint64(g.entry)]}})
					next++
				}
				most = max(most, sizeOf(t, s))
				shrinks(t, s, bound)
				remove(t, s, 1, next-1-uint64(g.trailing/g.entry))
			}
			t.Logf("at most %d KiB for %d KiB held, bound %d KiB", most>>10, (g.trailing+g.step)>>10, bound>>10)
		})
	}
}

// TestCutFreesSpace checks that a log that was truncated and is then idle frees its space; bolt's file keeps
// its size.
func TestCutFreesSpace(t *testing.T) {
	t.Parallel()
	for _, kind := range []Kind{WAL, Pebble} {
		s := open(t, t.TempDir(), kind)
		for i := range uint64(32) {
			data := make([]byte, 1<<20)
			_, _ = rand.Read(data) // never fails
			store(t, s, []*raft.Log{{Index: i + 1, Data: data}})
		}
		full := sizeOf(t, s)
		remove(t, s, 1, 31)
		shrinks(t, s, full/2)
	}
}

// shrinks waits until a log takes no more than to bytes.
func shrinks(t *testing.T, s Store, to int64) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		size := sizeOf(t, s)
		if size <= to {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the log takes %d bytes, and should %d", size, to)
		}
	}
}
