package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/dataplane/server"
)

// A disk that is full ends the writes and nothing else: the process lives, says why,
// and once there is room and it has been started again, all that was acknowledged is
// there.
func TestAFullDisk(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"wal", "pebble", "bolt", "badger"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			disk := t.TempDir()
			tinyDisk(t, disk, 256<<20)
			d, p, c := promise(t, filepath.Join(disk, "data"), 20, "--raft-store", store, "--snapshot-threshold", "2097152")

			filler := filepath.Join(disk, "filler")
			fill(t, disk, filler, 4<<20)
			var err error
			for err == nil {
				if len(d.ids) > 10_000 {
					t.Fatal("a full disk takes everything")
				}
				err = d.enqueue(t, c, 64<<10)
			}
			if code := api.CodeOf(err); code != api.Unhealthy && code != api.Overloaded {
				t.Errorf("a write on a full disk: %v", err)
			}
			if _, err := c.Ready(t.Context()); api.CodeOf(err) != api.Unhealthy || !strings.Contains(err.Error(), "of disk are free") {
				t.Errorf("ready: %v", err)
			}
			if err := d.enqueue(t, c, 1<<10); err == nil {
				t.Error("a small write goes through behind one that was refused")
			}
			if _, err := c.Job(t.Context(), d.any(), client.Read{}); err != nil {
				t.Errorf("a read on a full disk: %v", err)
			}

			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			if err := p.Terminate(t); err != nil {
				t.Errorf("it ends with %v: %s", err, p.Log())
			}
			_, c = d.start(t)
			d.kept(t, c)
		})
	}
}

// any is one of the jobs.
func (d *promised) any() (id string) {
	for id = range d.ids {
		break
	}
	return id
}

// fill leaves so many bytes free on the disk, which is less than a node wants.
func fill(t *testing.T, disk, path string, keep int64) {
	t.Helper()
	var s syscall.Statfs_t
	if err := syscall.Statfs(disk, &s); err != nil {
		t.Fatal(err)
	}
	free := int64(s.Bavail) * s.Bsize
	if keep >= server.DefaultMinFreeDisk || free < keep {
		t.Fatalf("%d bytes are free, %d are to be left", free, keep)
	}
	if err := os.WriteFile(path, make([]byte, free-keep), 0o600); err != nil {
		t.Fatal(err)
	}
}

// tinyDisk mounts a file system in memory, where that is allowed.
func tinyDisk(t *testing.T, dir string, bytes int) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		t.Skipf("a small disk needs the right to mount one: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}
