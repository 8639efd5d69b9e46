package raftlog

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// TestFailedFlushEndsAnAppendThatWaits lets appends wait for the flush of Pebble's memtables, and then the flush fails
// although the disk still takes Pebble's own log. The waiting append, or the one after it, must return the error.
func TestFailedFlushEndsAnAppendThatWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		errDisk := errors.New("the disk is broken")
		var hangs atomic.Bool
		broken := make(chan struct{})
		disk := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if hangs.Load() && strings.HasSuffix(op.Path, ".sst") {
				<-broken
				return errDisk
			}
			return nil
		}))
		s, err := (&Factory{Logger: hclog.NewNullLogger(), disk: disk}).Open(t.TempDir(), Pebble)
		if err != nil {
			t.Fatal(err)
		}
		hangs.Store(true)
		random := rand.NewChaCha8([32]byte{})
		var stored atomic.Uint64
		ended := make(chan error, 1)
		go func() {
			for n := uint64(1); ; n++ {
				data := make([]byte, 256<<10)
				_, _ = random.Read(data) // never fails
				if err := s.StoreLogs([]*raft.Log{{Index: n, Term: 1, Data: data}}); err != nil {
					ended <- err
					return
				}
				stored.Store(n)
			}
		}()
		synctest.Wait()
		if bytes := stored.Load() * 256 << 10; bytes < 2*pebbleMemTable || bytes > 5*pebbleMemTable {
			t.Errorf("appends wait after %d bytes", bytes)
		}
		close(broken)
		if err := <-ended; !errors.Is(err, errDisk) {
			t.Errorf("the append says %v", err)
		}
		_ = s.Close() // the disk is broken, so any error will do
	})
}
