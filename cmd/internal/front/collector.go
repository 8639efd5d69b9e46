package front

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// How much the heap of a server may grow between two collections, where GOGC does not say.
// Almost all that a request allocates is garbage when it is answered, and of what lives most
// are the stores' memtables and blocks, which hold no pointers: a small heap may become
// gcMostPercent larger, for at Go's default of 100 the collector takes a tenth of the
// processor under load. A large one grows by gcSpareBytes, so that a node which has filled
// its caches does not take three times their size besides; but by gcLeastPercent in any case.
const (
	gcMostPercent  = 300
	gcLeastPercent = 25
	gcSpareBytes   = 64 << 20
)

// TuneGC sets the collector up for a process that serves.
func TuneGC() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(gcMostPercent)
	followHeap(gcMostPercent)
}

// followHeap chooses the percentage anew after each collection: a finalizer is what the
// runtime calls then.
func followHeap(set int) {
	runtime.SetFinalizer(new([16]byte), func(*[16]byte) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		// Stopping the world for a few percent is not worth it.
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
