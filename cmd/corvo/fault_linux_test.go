package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/engine"
)

// TestAFullDisk fills the disk. Writes fail, but the process lives and says why. After room is made and the
// node started again, it has all acknowledged jobs.
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
			if api.CodeOf(err) == api.Unhealthy && !strings.Contains(err.Error(), "disk full") {
				t.Errorf("the reason does not say that the disk is full: %v", err)
			}
			if _, err := c.Ready(t.Context()); api.CodeOf(err) != api.Unhealthy || !strings.Contains(err.Error(), "of disk are free") || !strings.Contains(err.Error(), "disk full") {
				t.Errorf("ready: %v", err)
			}
			if log := p.Log(); !strings.Contains(log, "disk full") {
				t.Errorf("the log does not say that the disk is full: %s", log)
			}
			if err := d.enqueue(t, c, 1<<10); err == nil {
				t.Error("a small write goes through behind one that was refused")
			}
			if _, err := c.Job(t.Context(), d.any(), client.Read{}); err != nil {
				t.Errorf("a read on a full disk: %v", err)
			}

			unfill(t, disk, filler)
			if err := p.Terminate(t); err != nil {
				t.Errorf("it ends with %v: %s", err, p.Log())
			}
			_, c = d.start(t)
			d.kept(t, c)
		})
	}
}

// TestAStartOnAFullDisk checks that a node refuses to start on a full disk and says why, whether it has data
// there or not, and starts once there is room.
func TestAStartOnAFullDisk(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"wal", "pebble", "bolt", "badger"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			disk := t.TempDir()
			tinyDisk(t, disk, 256<<20)
			d, p, _ := promise(t, filepath.Join(disk, "data"), 20, "--raft-store", store)
			p.Kill(t)
			filler := filepath.Join(disk, "filler")
			for _, free := range []int64{0, engine.StartSpace - 1<<20} {
				fill(t, disk, filler, free)
				begun := time.Now()
				for _, dir := range []string{d.dir, filepath.Join(disk, "new")} {
					refused(t, []string{"--raft-bind", "off", "--raft-store", store, "--data-dir", dir}, "UNHEALTHY", "disk full", "free under "+dir, "make room")
				}
				if took := time.Since(begun); took > time.Minute {
					t.Errorf("two refusals took %v", took)
				}
				unfill(t, disk, filler)
			}
			enough := int64(engine.StartSpace + 1<<20)
			if store == "badger" {
				enough = 60 << 20 // the node keeps 48 MiB free itself
			}
			fill(t, disk, filler, enough)
			_, c := d.start(t)
			d.kept(t, c)
		})
	}
}

// any returns one of the jobs.
func (d *promised) any() (id string) {
	for id = range d.ids {
		break
	}
	return id
}

// fill leaves so many bytes free on the disk, fewer than a node needs.
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

// unfill removes the file of fill and waits until its space is free, because the kernel may free it later.
func unfill(t *testing.T, disk, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for {
		var s syscall.Statfs_t
		if err := syscall.Statfs(disk, &s); err != nil {
			t.Fatal(err)
		}
		if int64(s.Bavail)*s.Bsize > engine.StartSpace {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatal("the space of a removed file is never freed")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// tinyDisk mounts a file system in memory, or skips the test without permission to mount.
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
