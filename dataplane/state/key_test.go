package state

import (
	"fmt"
	"sync/atomic"
	"testing"
)

// A snapshot has the API keys of its head, also if it is taken while an entry is committed.
func TestSnapshotHasTheKeysOfItsHead(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	var ended atomic.Bool
	defer ended.Store(true)
	torn := make(chan error, 1)
	go func() {
		defer close(torn)
		for !ended.Load() {
			snap := s.Snapshot()
			head, keys := snap.Head().KeyRecords, len(snap.Keys())
			if err := snap.Close(); err != nil {
				torn <- err
				return
			}
			if head != uint64(keys) {
				torn <- fmt.Errorf("a snapshot whose head counts %d keys has %d", head, keys)
				return
			}
		}
	}()
	for i := range 500 {
		update(t, s, func(tx *Tx) { must(t, tx.PutKey(&Key{Id: fmt.Sprint("k", i)})) })
	}
	ended.Store(true)
	must(t, <-torn)
}
