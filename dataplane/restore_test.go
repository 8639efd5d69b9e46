package dataplane_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/dataplane"
	"github.com/corvo/corvo/dataplane/backup"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/raftlog"
	"github.com/corvo/corvo/engine/replica"
)

// bare is a bare node with a listener.
type bare struct {
	t    *testing.T
	node *dataplane.Node
	url  string
	key  string
	stop func()
}

// openBareNode opens the node in dir. With an empty key it uses the key that the node creates at its first
// start.
func openBareNode(t *testing.T, dir, key string, shards int) *bare {
	t.Helper()
	n, err := dataplane.Open(t.Context(), dataplane.Config{DataDir: dir, NodeID: "n1", Version: "v1.2.3", Shards: shards, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(n.Handler())
	b := &bare{t: t, node: n, url: front.URL, key: key}
	if key == "" {
		b.key = n.FirstKey
	}
	b.stop = sync.OnceFunc(func() {
		n.Drain()
		front.Close()
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(b.stop)
	return b
}

func (b *bare) client() *client.Client {
	c, err := client.New(b.url, b.key)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(c.Close)
	return c
}

// ask sends a request and returns its status and its JSON.
func (b *bare) ask(method, path, body string, header ...string) (int, map[string]any) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.url+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+b.key)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	var out map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil && !errors.Is(err, io.EOF) {
		b.t.Fatal(err)
	}
	return resp.StatusCode, out
}

// ok does the same as ask, and fails the test unless the request succeeds.
func (b *bare) ok(method, path, body string, header ...string) map[string]any {
	b.t.Helper()
	status, out := b.ask(method, path, body, header...)
	if status > 299 {
		b.t.Fatalf("%s %s answered %d %v", method, path, status, out)
	}
	return out
}

func (b *bare) backup() []byte {
	b.t.Helper()
	var file bytes.Buffer
	if err := b.client().Backup(b.t.Context(), false, func(r io.Reader) error { _, err := io.Copy(&file, r); return err }); err != nil {
		b.t.Fatal(err)
	}
	return file.Bytes()
}

func restored(t *testing.T, file []byte) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "restored")
	if _, err := dataplane.Restore(t.Context(), bytes.NewReader(file), dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// furnish gives a node some of every kind of record and returns the paths whose answers must survive a
// restore.
func (b *bare) furnish() (paths []string) {
	schedule := b.ok("POST", "/schedules", `{"name":"nightly","queue":"reports","cron":"0 3 * * *","timezone":"Europe/Berlin"}`)
	b.ok("POST", "/budgets", `{"scope":"queue","target":"agents","daily_usd":10,"default_reserve_usd":1}`)
	b.ok("POST", "/webhooks", `{"url":"https://example.com/hook","events":["completed"],"secret":"s3cret-s3cret-s3cret"}`)
	b.ok("POST", "/limit-rules", `{"queue":"mail","max_concurrency":9}`)
	made := map[string]string{}
	enqueue := func(name, body string) {
		made[name] = b.ok("POST", "/enqueue", body)["job_id"].(string)
	}
	enqueue("done", `{"queue":"mail","payload":{"n":1}}`)
	done := b.ok("POST", "/fetch", `{"queues":["mail"],"worker_id":"w1"}`)
	b.ok("POST", "/ack/"+made["done"], fmt.Sprintf(`{"result":{"sent":true},"lease_token":%q}`, done["lease_token"]))
	enqueue("retrying", `{"queue":"mail","payload":{"n":2},"retry_base_delay":"1h","retry_max_delay":"2h"}`)
	failing := b.ok("POST", "/fetch", `{"queues":["mail"],"worker_id":"w1"}`)
	b.ok("POST", "/fail/"+made["retrying"], fmt.Sprintf(`{"error":"smtp says no","lease_token":%q}`, failing["lease_token"]))
	enqueue("dead", `{"queue":"mail","payload":{"n":3},"max_retries":1}`)
	dying := b.ok("POST", "/fetch", `{"queues":["mail"],"worker_id":"w1"}`)
	b.ok("POST", "/fail/"+made["dead"], fmt.Sprintf(`{"error":"gone","lease_token":%q}`, dying["lease_token"]))
	enqueue("scheduled", `{"queue":"mail","scheduled_at":"2030-01-01T00:00:00Z"}`)
	enqueue("pending", `{"queue":"mail","unique_key":"u1","tags":{"a":"b"}}`)
	enqueue("settled", `{"queue":"agents","cost_estimate_usd":0.5}`)
	paid := b.ok("POST", "/fetch", `{"queues":["agents"],"worker_id":"w1"}`)
	b.ok("POST", "/ack/"+made["settled"], fmt.Sprintf(`{"usage":{"cost_usd":0.25},"lease_token":%q}`, paid["lease_token"]))
	for _, id := range made {
		paths = append(paths, "/jobs/"+id, "/jobs/"+id+"/events")
	}
	slices.Sort(paths)
	return append(paths, "/budgets/queue/agents", "/schedules/"+schedule["id"].(string), "/dead", "/usage/summary?period=24h&group_by=queue")
}

// says returns a node's answer without the fields that tell when it was asked. It asks again while the node refuses
// the request as OVERLOADED, because a busy machine may take longer than the limit of a query.
func (b *bare) says(path string) string {
	b.t.Helper()
	status, out := b.ask("GET", path, "")
	for status == http.StatusTooManyRequests {
		status, out = b.ask("GET", path, "")
	}
	if status != http.StatusOK {
		b.t.Fatalf("GET %s answered %d %v", path, status, out)
	}
	for _, when := range []string{"duration_ms", "from", "to", "as_of"} {
		delete(out, when)
	}
	return fmt.Sprint(out)
}

// A restored node holds everything in the backup, byte for byte except for the identity of its history, and
// gives the same answers.
func TestARestoredNodeIsAsItWas(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d shards", shards), func(t *testing.T) {
			t.Parallel()
			b := openBareNode(t, filepath.Join(t.TempDir(), "first"), "", shards)
			paths := b.furnish()
			before := map[string]string{}
			for _, path := range paths {
				before[path] = b.says(path)
			}
			once := b.ok("POST", "/enqueue", `{"queue":"twice"}`, "Idempotency-Key", "once")
			held := b.ok("POST", "/enqueue", `{"queue":"held"}`)["job_id"].(string)
			lease := b.ok("POST", "/fetch", `{"queues":["held"],"worker_id":"w1","lease_duration":3600}`)
			file := b.backup()
			b.ok("POST", "/enqueue", `{"queue":"later"}`) // not in the backup
			followed := b.ok("GET", "/cluster/events?after_seq=0&limit=1000", "")["cursor"]
			b.stop()

			dir := restored(t, file)
			compareStores(t, file, dir)
			r := openBareNode(t, dir, b.key, 0)
			if r.node.FirstKey != "" {
				t.Error("a restored node has made another first key")
			}
			for _, path := range paths {
				if after := r.says(path); after != before[path] {
					t.Errorf("%s is\n%s\nwas\n%s", path, after, before[path])
				}
			}
			// A client that followed the former node's events receives a RESET, whatever its position was.
			events, _ := r.ok("GET", fmt.Sprint("/cluster/events?limit=100&after_seq=", followed), "")["events"].([]any)
			if len(events) == 0 || events[0].(map[string]any)["type"] != "RESET" {
				t.Errorf("behind %v there are the events %v", followed, events)
			}
			// A settled job stays settled, and a fetch does not return it.
			if status, got := r.ask("POST", "/fetch", `{"queues":["mail"],"worker_id":"w2"}`); status != 200 || !slices.Contains(paths, "/jobs/"+got["job_id"].(string)) {
				t.Errorf("a fetch answers %d %v", status, got)
			} else if before["/jobs/"+got["job_id"].(string)] == "" || !strings.Contains(before["/jobs/"+got["job_id"].(string)], "state:pending") {
				t.Errorf("the job that was fetched was %s", before["/jobs/"+got["job_id"].(string)])
			}
			// A leased job stays leased, and its worker may ack it.
			r.ok("POST", "/ack/"+held, fmt.Sprintf(`{"lease_token":%q}`, lease["lease_token"]))
			// The node remembers the idempotency key, and knows nothing that came after the backup.
			again := r.ok("POST", "/enqueue", `{"queue":"twice"}`, "Idempotency-Key", "once")
			if again["job_id"] != once["job_id"] {
				t.Errorf("a request that was repeated answers %v, it answered %v", again, once)
			}
			if status, _ := r.ask("GET", "/queues/later", ""); status != 404 {
				t.Errorf("a queue that came after the backup answers %d", status)
			}
			if status, _ := r.ask("GET", "/queues/twice", ""); status != 200 || int(r.ok("GET", "/queues/twice", "")["pending"].(float64)) != 1 {
				t.Error("a request that was repeated has made another job")
			}
			r.ok("POST", "/admin/verify", "")
		})
	}
}

// compareStores compares the stores of a restored node, before its first start, with the backup file.
func compareStores(t *testing.T, file []byte, dir string) {
	t.Helper()
	r, err := backup.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	for i, of := range r.Header.Shards {
		s, err := state.Open(filepath.Join(dir, "ns", "default", fmt.Sprint(i), "state"), state.Options{})
		if err != nil {
			t.Fatal(err)
		}
		v := s.Snapshot()
		stored := map[string][]byte{}
		for kv, err := range v.All() {
			if err != nil {
				t.Fatal(err)
			}
			stored[string(kv.Key)] = kv.Value
		}
		differ := 0
		for kv, err := range r.Shard(i) {
			if err != nil {
				t.Fatal(err)
			}
			value, ok := stored[string(kv.Key)]
			if !ok {
				t.Errorf("shard %d: key %x is not there", i, kv.Key)
			} else if !bytes.Equal(value, kv.Value) {
				// The head, and the numbers received from other shards.
				if differ++; kv.Key[0] != 0x01 && kv.Key[0] != 0x13 {
					t.Errorf("shard %d: key %x has another value", i, kv.Key)
				}
			}
			delete(stored, string(kv.Key))
		}
		if len(stored) > 0 || differ == 0 {
			t.Errorf("shard %d: %d keys are in no backup, %d values differ", i, len(stored), differ)
		}
		head := v.Head()
		if head.Index != of.Index || head.Term != of.Term || bytes.Equal(head.Incarnation, of.Incarnation[:]) {
			t.Errorf("shard %d is at %d of term %d, history %x; it was at %d of %d, history %x", i, head.Index, head.Term, head.Incarnation, of.Index, of.Term, of.Incarnation[:])
		}
		if err := errors.Join(v.Check(), v.Close(), s.Close()); err != nil {
			t.Errorf("shard %d: %v", i, err)
		}
	}
	if _, err := r.End(); err != nil {
		t.Error(err)
	}
}

// A backup that is taken while jobs move between shards holds each job once: in a queue, or on its way to
// one.
func TestABackupUnderLoadLosesNothingBetweenShards(t *testing.T) {
	t.Parallel()
	const jobs = 40
	b := openBareNode(t, filepath.Join(t.TempDir(), "first"), "", 3)
	c := b.client()
	queues := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	var ids []string
	for range jobs {
		made, err := c.Enqueue(t.Context(), api.EnqueueRequest{Queue: "a"})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, made.JobID)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var moved atomic.Int64
	var moving sync.WaitGroup
	for caller := range 4 {
		moving.Go(func() {
			for i := caller; ctx.Err() == nil; i += 4 {
				// A move fails if the job is already moving, or is in that queue.
				if c.Move(ctx, ids[i%jobs], queues[i*7%len(queues)]) == nil {
					moved.Add(1)
				}
			}
		})
	}
	var files [][]byte
	for range 3 {
		from := moved.Load()
		for moved.Load() < from+20 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		files = append(files, b.backup())
	}
	cancel()
	moving.Wait()
	b.stop()
	for i, file := range files {
		r := openBareNode(t, restored(t, file), b.key, 0)
		c := r.client()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			all, err := c.Queues(t.Context(), client.Read{})
			if err != nil {
				t.Fatal(err)
			}
			pending := 0
			for _, q := range all {
				pending += int(q.Pending)
			}
			if pending == jobs {
				break
			}
			if pending > jobs || time.Now().After(deadline) {
				t.Fatalf("backup %d holds %d jobs, there were %d", i, pending, jobs)
			}
		}
		for _, id := range ids {
			if _, err := c.Job(t.Context(), id, client.Read{}); err != nil {
				t.Errorf("backup %d: %v", i, err)
			}
		}
		r.stop()
	}
}

// A restore that is cut short leaves a directory in which no node starts, and into which the backup can be
// restored again.
func TestARestoreCutShort(t *testing.T) {
	t.Parallel()
	b := openBareNode(t, filepath.Join(t.TempDir(), "first"), "", 2)
	b.ok("POST", "/enqueue", `{"queue":"mail"}`)
	file := b.backup()
	b.stop()
	open := func(dir string) error {
		n, err := dataplane.Open(t.Context(), dataplane.Config{DataDir: dir, NodeID: "n1", Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			err = n.Close(context.Background())
		}
		return err
	}
	dir := filepath.Join(t.TempDir(), "new")
	// The second reading of the file, during which Restore writes, ends early.
	for _, left := range []int{100, len(file) / 2, len(file) - 1} {
		cause := errors.New("power cut")
		from := &failingReader{Reader: bytes.NewReader(file), after: len(file) + 1 + left, cause: cause}
		if _, err := dataplane.Restore(t.Context(), from, dir); !errors.Is(err, cause) {
			t.Fatalf("cut short after %d bytes: %v", left, err)
		}
		if err := open(dir); api.CodeOf(err) != api.Conflict || !strings.Contains(err.Error(), "cut short") {
			t.Errorf("a node in it: %v", err)
		}
	}
	if _, err := dataplane.Restore(t.Context(), bytes.NewReader(file), dir); err != nil {
		t.Fatal(err)
	}
	// A crash after the last step would leave this folder.
	if err := os.MkdirAll(filepath.Join(dir, "restoring"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := open(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "restoring")); err == nil {
		t.Error("what the restore has left is still there")
	}
	if _, err := dataplane.Restore(t.Context(), bytes.NewReader(file), dir); api.CodeOf(err) != api.Conflict {
		t.Errorf("into a directory with a node: %v", err)
	}
	// Restore writes nothing for a file that it refuses.
	dir = filepath.Join(t.TempDir(), "none")
	bad := bytes.Clone(file)
	bad[len(bad)-40] ^= 1
	if _, err := dataplane.Restore(t.Context(), bytes.NewReader(bad), dir); api.CodeOf(err) != api.ValidationError {
		t.Errorf("of a damaged file: %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("something was written of a damaged file")
	}
}

// failingReader fails after so many bytes, counted over all its readings.
type failingReader struct {
	*bytes.Reader
	after int
	cause error
}

func (r *failingReader) Read(b []byte) (int, error) {
	if r.after <= 0 {
		return 0, r.cause
	}
	n, err := r.Reader.Read(b[:min(len(b), r.after)])
	r.after -= n
	return n, err
}

// A restored node is founded with the log store with which it is started. If a crash cut the founding short,
// it is founded again. It opens after a restart.
func TestARestoredNodeIsFoundedOnce(t *testing.T) {
	t.Parallel()
	b := openBareNode(t, filepath.Join(t.TempDir(), "first"), "", 1)
	id := b.ok("POST", "/enqueue", `{"queue":"mail"}`)["job_id"].(string)
	file := b.backup()
	b.stop()
	for _, kind := range raftlog.Kinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir := restored(t, file)
			// Found the node as another node would have done without recording it.
			cellDir := filepath.Join(dir, "ns", "default", "0")
			s, err := state.Open(filepath.Join(cellDir, "state"), state.Options{})
			if err != nil {
				t.Fatal(err)
			}
			log, err := (&raftlog.Factory{}).Open(filepath.Join(cellDir, "raft", "log"), raftlog.Kind(kind))
			if err != nil {
				t.Fatal(err)
			}
			if err := replica.BootstrapRestored(filepath.Join(cellDir, "raft"), log, s.Applied(), "other", "other:1", op.NewMachine(s)); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(log.Close(), s.Close()); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				n, err := dataplane.Open(t.Context(), dataplane.Config{
					DataDir: dir, NodeID: "n1", Logger: slog.New(slog.DiscardHandler), Engine: engine.Tuning{LogKind: raftlog.Kind(kind)},
				})
				if err != nil {
					t.Fatal(err)
				}
				at := httptest.NewServer(n.Handler())
				r := &bare{t: t, url: at.URL, key: b.key}
				r.ok("GET", "/jobs/"+id, "")
				r.ok("POST", "/enqueue", `{"queue":"more"}`)
				n.Drain()
				at.Close()
				if err := n.Close(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			// A node whose log was lost afterwards does not open.
			if err := os.RemoveAll(filepath.Join(cellDir, "raft", "log")); err != nil {
				t.Fatal(err)
			}
			_, err = dataplane.Open(t.Context(), dataplane.Config{
				DataDir: dir, NodeID: "n1", Logger: slog.New(slog.DiscardHandler), Engine: engine.Tuning{LogKind: raftlog.Kind(kind)},
			})
			if api.CodeOf(err) != api.Unhealthy {
				t.Errorf("without its log it answers %v", err)
			}
		})
	}
}
