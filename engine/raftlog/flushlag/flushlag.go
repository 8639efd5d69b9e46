// Package flushlag makes the commits of a Pebble store wait for the flushes of its memtables. It owns no store. It may import
// only Pebble.
package flushlag

import (
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// Lag counts the bytes of the commits that are in memtables only, so that commits can wait for the disk.
//
// Pebble has a limit of its own (MemTableStopWritesThreshold), which a store with a Lag does not use, because a commit that
// Pebble stalls waits for ever if the flush fails: the writing goroutine would hang instead of returning the error.
type Lag struct {
	written atomic.Uint64 // bytes of all commits
	begun   atomic.Uint64 // written when the running flush began
	flushed atomic.Uint64 // begun of the last flush that ended
	ended   chan struct{} // holds a token after the end of a flush
}

// Listen makes the events of a store's flushes change the lag. A flush that failed counts too, because it fails the store.
func (l *Lag) Listen(events *pebble.EventListener) {
	l.ended = make(chan struct{}, 1)
	events.FlushBegin = func(pebble.FlushInfo) { l.begun.Store(l.written.Load()) }
	events.FlushEnd = func(pebble.FlushInfo) {
		l.flushed.Store(l.begun.Load())
		l.wake()
	}
}

// Add counts the bytes of a commit.
func (l *Lag) Add(bytes uint64) { l.written.Add(bytes) }

// Await returns when the lag is below most bytes, or when failed is closed. most must be more than two memtables, so that
// there is a flush to wait for.
func (l *Lag) Await(most uint64, failed <-chan struct{}) {
	waited := false
	for ; l.written.Load()-l.flushed.Load() >= most; waited = true {
		select {
		case <-l.ended:
		case <-failed:
			return
		}
	}
	if waited {
		l.wake() // another commit may wait for the same flush
	}
}

// wake lets one Await look again.
func (l *Lag) wake() {
	select {
	case l.ended <- struct{}{}:
	default:
	}
}
