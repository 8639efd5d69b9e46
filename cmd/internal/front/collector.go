package front

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// The bounds of the heap's growth between two collections, unless GOGC sets it. Almost all that a request
// allocates is garbage once the server has answered, and most of the live heap is the stores' memtables and
// blocks, which hold no pointers. A small heap may therefore become gcMostPercent larger, because at Go's
// default of 100 the collector takes a tenth of the processor under load. A large heap may grow only by
// gcSpareBytes, or by gcLeastPercent if that is more, so that a node with full caches does not take three
// times their size in addition.
const (
	gcMostPercent  = 300
	gcLeastPercent = 25
	gcSpareBytes   = 64 << 20
)

// TuneGC configures the garbage collector for a process that serves.
func TuneGC() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(gcMostPercent)
	followHeap(gcMostPercent)
}

// followHeap chooses the percentage anew after each collection. It sets a finalizer for that, because the
// runtime calls finalizers after a collection.
func followHeap(set int) {
	runtime.SetFinalizer(new([16]byte), func(*[16]byte) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		// SetGCPercent stops the world, and a few percent are not worth that.
		if want := gcPercent(live[0].Value.Uint64()); want*10 < set*9 || want*9 > set*10 {
			debug.SetGCPercent(want)
			set = want
		}
		followHeap(set)
	})
}

func gcPercent(liveBytes uint64) int {
	percent := uint64(gcSpareBytes) * 100 / max(liveBytes, 1)
	return int(min(max(percent, gcLeastPercent), gcMostPercent))
}
