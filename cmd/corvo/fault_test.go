package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// The files of a node with one shard.
const (
	logFiles   = "ns/default/0/raft/log/*.wal"
	tableFiles = "ns/default/0/state/db-*/*.sst"
	viewFile   = "ns/default/0/view/view.db"
)

const faultQueue = "faults"

// promised is a data directory with the promises to its clients.
type promised struct {
	dir  string
	ids  map[string]bool
	args []string // of the server, besides the directory
}

// promise starts a node, enqueues jobs and waits until the view shows them.
func promise(t *testing.T, dir string, jobs int, args ...string) (*promised, *process, *client.Client) {
	t.Helper()
	d := &promised{dir: dir, ids: map[string]bool{}, args: args}
	p, c := d.start(t)
	for range jobs {
		if err := d.enqueue(t, c, 1<<10); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, t.Context(), "the view shows all jobs", func() bool {
		return len(searchAll(t, t.Context(), c, faultQueue)) == jobs
	})
	return d, p, c
}

func (d *promised) launch(t *testing.T) (*process, error) {
	t.Helper()
	return launch(t, append([]string{"--data-dir", d.dir}, d.args...)...)
}

func (d *promised) start(t *testing.T) (*process, *client.Client) {
	t.Helper()
	p, err := d.launch(t)
	if err != nil {
		t.Fatal(err)
	}
	return p, newClient(t, p.endpoint, adminKey(t, d.dir))
}

// enqueue adds a job with a payload of about size bytes, and records it if the node acknowledged it.
func (d *promised) enqueue(t *testing.T, c *client.Client, size int) error {
	t.Helper()
	payload := fmt.Appendf(nil, "%q", strings.Repeat(fmt.Sprintf("%08x", len(d.ids)), size/8))
	res, err := c.Enqueue(t.Context(), api.EnqueueRequest{Queue: faultQueue, Payload: json.RawMessage(payload)})
	if err == nil {
		d.ids[res.JobID] = true
	}
	return err
}

// kept checks that a read and a search find each job, and that the node accepts another one.
func (d *promised) kept(t *testing.T, c *client.Client) {
	t.Helper()
	if err := d.enqueue(t, c, 1<<10); err != nil {
		t.Errorf("the node takes no more: %v", err)
	}
	for id := range d.ids {
		if job, err := c.Job(t.Context(), id, client.Read{}); err != nil || job.State != "pending" {
			t.Fatalf("%s was acknowledged: %q, %v", id, job.State, err)
		}
	}
	found := map[string]bool{}
	eventually(t, t.Context(), "the view is there", func() bool {
		_, err := c.Search(t.Context(), api.SearchRequest{SearchFilter: api.SearchFilter{Queue: faultQueue}}, client.Read{})
		return api.CodeOf(err) != api.ViewBehind
	})
	for _, job := range searchAll(t, t.Context(), c, faultQueue) {
		found[job.ID] = true
	}
	for id := range d.ids {
		if !found[id] {
			t.Fatalf("%s is not found by a search, which finds %d of %d", id, len(found), len(d.ids))
		}
	}
}

// refused starts the node, which must exit with an error that contains these words.
func (d *promised) refused(t *testing.T, words ...string) {
	t.Helper()
	_, err := d.launch(t)
	if err == nil {
		t.Fatal("it starts all the same")
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the message lacks %q: %v", word, err)
		}
	}
}

// file returns the largest file below the directory that matches a pattern.
func (d *promised) file(t *testing.T, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(d.dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	var largest string
	var most int64 = -1
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > most {
			largest, most = name, info.Size()
		}
	}
	if largest == "" {
		t.Fatalf("there is no file %s", pattern)
	}
	return largest
}

// change rewrites a file in place, so that a process that has it open sees the change.
func change(t *testing.T, path string, f func(data []byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, f(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

// written returns the length of data without the trailing zeros of a preallocated file.
func written(data []byte) int { return len(bytes.TrimRight(data, "\x00")) }

// TestATornEndOfTheLogIsDropped checks that a node drops a write torn by a power cut, because nobody
// acknowledged it.
func TestATornEndOfTheLogIsDropped(t *testing.T) {
	t.Parallel()
	d, p, _ := promise(t, t.TempDir(), 20)
	p.Kill(t)
	change(t, d.file(t, logFiles), func(data []byte) []byte {
		const entryFrame = 1 // raft-wal's: kind, 3 unused bytes, length
		torn := binary.LittleEndian.AppendUint32([]byte{entryFrame, 0, 0, 0}, 1000)
		torn = append(torn, bytes.Repeat([]byte{0xab}, 500)...)
		copy(data[(written(data)+7)&^7:], torn)
		return data
	})
	_, c := d.start(t)
	d.kept(t, c)
}

// TestADamagedLogIsRefused damages acknowledged entries that a start must replay. The node does not guess: it
// refuses to start, and says so again the next time.
func TestADamagedLogIsRefused(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(data []byte) []byte{
		"a byte in the middle": func(data []byte) []byte {
			data[written(data)/2] ^= 1
			return data
		},
		"the end is gone": func(data []byte) []byte {
			end := written(data)
			clear(data[end*3/4 : end])
			return data
		},
		"cut short": func(data []byte) []byte { return data[:written(data)/2] },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, p, _ := promise(t, t.TempDir(), 20)
			p.Kill(t)
			path := d.file(t, logFiles)
			change(t, path, harm)
			for range 2 {
				d.refused(t, filepath.Dir(path), "the log is damaged", "restore")
			}
		})
	}
}

// TestADamagedStoreIsReported checks that `corvo admin verify` finds a damaged table and that the node serves
// no false data, whether it was restarted or not.
func TestADamagedStoreIsReported(t *testing.T) {
	t.Parallel()
	d, p, c := promise(t, t.TempDir(), 200)
	if _, err := c.TakeSnapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.VerifyStore(t.Context()); err != nil {
		t.Fatalf("before it was damaged: %v", err)
	}
	path := d.file(t, tableFiles)
	change(t, path, func(data []byte) []byte {
		for i := range 64 {
			data[len(data)/3+i] ^= 0x55
		}
		return data
	})
	_, err := c.VerifyStore(t.Context())
	if api.CodeOf(err) != api.Unhealthy || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("verify: %v", err)
	}
	eventually(t, t.Context(), "the log names the file", func() bool {
		return strings.Contains(p.Log(), filepath.Base(path))
	})
	if err := d.enqueue(t, c, 10); api.CodeOf(err) != api.Unhealthy || !strings.Contains(err.Error(), "rebuild it") {
		t.Errorf("a write: %v", err)
	}
	if _, err := c.Ready(t.Context()); api.CodeOf(err) != api.Unhealthy {
		t.Errorf("ready: %v", err)
	}
	p.Kill(t)
	// A start reads only some of the tables.
	if p, err = d.launch(t); err != nil {
		if !strings.Contains(err.Error(), filepath.Join(d.dir, "ns/default/0/state")) || !strings.Contains(err.Error(), "checksum mismatch") {
			t.Errorf("a start: %v", err)
		}
		return
	}
	if _, err := newClient(t, p.endpoint, adminKey(t, d.dir)).VerifyStore(t.Context()); api.CodeOf(err) != api.Unhealthy {
		t.Errorf("verify after a start: %v", err)
	}
}

// TestADamagedViewIsBuiltAgain checks that a start rebuilds the view from the store, whatever happened to its
// file.
func TestADamagedViewIsBuiltAgain(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(t *testing.T, path string){
		"deleted": func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		},
		"torn": func(t *testing.T, path string) {
			change(t, path, func(data []byte) []byte { return data[:len(data)/2+100] })
		},
		"garbled": func(t *testing.T, path string) {
			change(t, path, func(data []byte) []byte {
				for at := 4096; at < len(data); at += 4096 {
					copy(data[at:], bytes.Repeat([]byte{0x55}, 100))
				}
				return data
			})
		},
		"something else": func(t *testing.T, path string) {
			change(t, path, func([]byte) []byte { return bytes.Repeat([]byte("no view "), 1000) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, p, _ := promise(t, t.TempDir(), 50)
			if err := p.Terminate(t); err != nil {
				t.Fatal(err)
			}
			harm(t, filepath.Join(d.dir, viewFile))
			_, c := d.start(t)
			d.kept(t, c)
		})
	}
}

// TestAGarbledRowOfTheView changes a row of the view. SQLite has no checksums, so the node shows the changed
// row. After a flush the node compares some rows with the store, and rebuilds the view if one differs.
func TestAGarbledRowOfTheView(t *testing.T) {
	t.Parallel()
	d, p, _ := promise(t, t.TempDir(), 5)
	if err := p.Terminate(t); err != nil {
		t.Fatal(err)
	}
	right := []byte("00000003")
	change(t, filepath.Join(d.dir, viewFile), func(data []byte) []byte {
		if !bytes.Contains(data, right) {
			t.Fatal("the view has no such payload")
		}
		return bytes.ReplaceAll(data, right, []byte("garbled!"))
	})
	_, c := d.start(t)
	garbled := func() (id string) {
		for _, job := range searchAll(t, t.Context(), c, faultQueue) {
			if bytes.Contains(job.Payload, []byte("garbled!")) {
				id = job.ID
			}
		}
		return id
	}
	id := garbled()
	if id == "" {
		t.Fatal("the garbled row was noticed")
	}
	if job, err := c.Job(t.Context(), id, client.Read{}); err != nil || !bytes.Contains(job.Payload, right) {
		t.Errorf("by its id: %s, %v", job.Payload, err)
	}
	if _, err := c.Enqueue(t.Context(), api.EnqueueRequest{Queue: "another", Payload: []byte("1")}); err != nil {
		t.Fatal(err)
	}
	eventually(t, t.Context(), "the view to be built again", func() bool {
		page, err := c.Search(t.Context(), api.SearchRequest{SearchFilter: api.SearchFilter{Queue: faultQueue}}, client.Read{Strong: true})
		return err == nil && !slices.ContainsFunc(page.Jobs, func(job api.Job) bool { return bytes.Contains(job.Payload, []byte("garbled!")) })
	})
	if id := garbled(); id != "" {
		t.Errorf("%s is still what it was garbled to", id)
	}
	d.kept(t, c)
}
