package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/cmd/internal/proctest"
	"github.com/corvo/corvo/dataplane/backup"
)

// commandOf runs a command at a node and fails the test if the command fails.
func commandOf(t *testing.T, endpoint, key string, args ...string) string {
	t.Helper()
	a := corvoFed(t, nil, []string{"CORVO_ENDPOINT=" + endpoint, "CORVO_API_KEY=" + key}, args...)
	if a.code != 0 {
		t.Fatalf("corvo %s: exit %d\n%s", strings.Join(args, " "), a.code, a.stderr)
	}
	return a.stdout
}

// TestABackupOfAFollowerBecomesACluster takes a backup of a follower while jobs run. The backup holds every
// job that was done before the request; a cluster founded on the backup runs none of these jobs again, and
// other nodes join the cluster.
func TestABackupOfAFollowerBecomesACluster(t *testing.T) {
	t.Parallel()
	c := newTrio(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	acked := map[string]bool{}
	var working sync.WaitGroup
	for _, name := range c.names {
		at := c.client(t, name)
		working.Go(func() {
			for ctx.Err() == nil {
				_, err := at.Enqueue(ctx, api.EnqueueRequest{Queue: "work"})
				if err != nil {
					continue
				}
				got, err := at.Fetch(ctx, api.FetchRequest{Queues: []string{"work"}, WorkerID: name})
				if err != nil || got == nil || at.Ack(ctx, got.JobID, api.AckRequest{LeaseToken: got.LeaseToken}) != nil {
					continue
				}
				mu.Lock()
				acked[got.JobID] = true
				mu.Unlock()
			}
		})
	}
	done := func() map[string]bool {
		mu.Lock()
		defer mu.Unlock()
		all := map[string]bool{}
		for id := range acked {
			all[id] = true
		}
		return all
	}
	eventually(t, within(t), "some jobs", func() bool { return len(done()) > 50 })
	status, err := c.client(t, "node-0").ClusterStatus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	follower := c.others(status.LeaderID)[0]
	before := done()
	file := filepath.Join(t.TempDir(), "cluster.backup")
	commandOf(t, c.nodes[follower].endpoint, c.key, "admin", "backup", "--out", file)
	cancel()
	working.Wait()

	dir := filepath.Join(t.TempDir(), "node-a")
	commandOf(t, "", "", "admin", "restore", "--from", file, "--data-dir", dir)
	token := tokenFile(t, "anew")
	raft := freePort(t)
	first := startServer(t, "--data-dir", dir, "--node-id", "node-a", "--raft-bind", raft, "--join-token-file", token)
	at := newClient(t, first.endpoint, c.key)
	for id := range before {
		if j, err := at.Job(t.Context(), id, client.Read{}); err != nil || j.State != "completed" {
			t.Fatalf("job %s was acknowledged before the backup; restored it is %q, %v", id, j.State, err)
		}
	}
	joined := startServer(t, "--data-dir", filepath.Join(t.TempDir(), "node-b"), "--node-id", "node-b", "--raft-bind", freePort(t), "--join", raft, "--join-token-file", token)
	awaitVoters(t, within(t), at, 2)
	other := newClient(t, joined.endpoint, c.key)
	for id := range before {
		if j, err := other.Job(t.Context(), id, client.Read{}); err != nil || j.State != "completed" {
			t.Fatalf("on the node that joined, job %s is %q, %v", id, j.State, err)
		}
		break
	}
	if _, err := other.Enqueue(t.Context(), api.EnqueueRequest{Queue: "work"}); err != nil {
		t.Error(err)
	}
}

// TestKilledWhileABackupIsTakenOrRestored kills a node while it sends a backup, and a restore while it
// writes. Neither leaves anything that looks complete, and both can be repeated.
func TestKilledWhileABackupIsTakenOrRestored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startServer(t, "--data-dir", dir)
	key := adminKey(t, dir)
	c := newClient(t, p.endpoint, key)
	const jobs = 30
	for range jobs {
		if _, err := c.Enqueue(t.Context(), api.EnqueueRequest{Queue: "mail", Payload: []byte(`"` + strings.Repeat("x", 900<<10) + `"`)}); err != nil {
			t.Fatal(err)
		}
	}
	var came atomic.Int64
	err := c.Backup(t.Context(), false, func(r io.Reader) error {
		var file bytes.Buffer
		if _, err := io.CopyN(&file, r, 1<<20); err != nil {
			return err
		}
		p.Kill(t)
		_, err := io.Copy(&file, r)
		came.Store(int64(file.Len()))
		if _, _, bad := backup.Verify(&file); bad == nil || !strings.Contains(bad.Error(), "truncated") {
			t.Errorf("what came before the node was killed is %v", bad)
		}
		return err
	})
	if err == nil || came.Load() >= jobs*900<<10 {
		t.Fatalf("the backup of a node that was killed ended with %v after %d bytes", err, came.Load())
	}
	p = startServer(t, "--data-dir", dir)
	file := filepath.Join(t.TempDir(), "b.backup")
	commandOf(t, p.endpoint, key, "admin", "backup", "--out", file)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info, err)
	}
	if a := corvoFed(t, nil, []string{"CORVO_ENDPOINT=" + p.endpoint, "CORVO_API_KEY=" + key}, "admin", "backup", "--out", file); a.code != 2 || !strings.Contains(a.stderr, "exists") {
		t.Errorf("over a backup there is: exit %d %s", a.code, a.stderr)
	}
	p.Kill(t)

	fresh := filepath.Join(t.TempDir(), "new")
	restore := exec.Command(proctest.Build(t, "../..", "./cmd/corvo"), "admin", "restore", "--from", file, "--data-dir", fresh)
	if err := restore.Start(); err != nil {
		t.Fatal(err)
	}
	// Kill the restore as soon as it writes, at any point.
	eventually(t, within(t), "the restore has begun", func() bool {
		_, err := os.Stat(filepath.Join(fresh, "restoring"))
		return err == nil
	})
	killed := restore.Process.Kill()
	ended := restore.Wait()
	if _, err := os.Stat(filepath.Join(fresh, "ns")); err != nil {
		if killed != nil || ended == nil {
			t.Fatalf("the restore was not killed: %v %v", killed, ended)
		}
		if _, err := launch(t, "--data-dir", fresh); err == nil {
			t.Fatal("a node has started in a directory whose restore was cut short")
		}
		commandOf(t, "", "", "admin", "restore", "--from", file, "--data-dir", fresh)
	}
	r := startServer(t, "--data-dir", fresh)
	if q, err := newClient(t, r.endpoint, key).Queue(t.Context(), "mail", client.Read{Strong: true}); err != nil || q.Pending != jobs {
		t.Errorf("restored there are %d jobs, %v; want %d", q.Pending, err, jobs)
	}
}

// TestABackupIsPiped checks that stdout carries the same bytes as a file, with the summary on stderr. A
// backup that breaks off ends with a failure, and the command refuses to write to a terminal.
func TestABackupIsPiped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startServer(t, "--data-dir", dir)
	env := []string{"CORVO_ENDPOINT=" + p.endpoint, "CORVO_API_KEY=" + adminKey(t, dir)}
	for _, output := range []string{"table", "json"} {
		a := corvoFed(t, nil, env, "admin", "backup", "--out", "-", "--output", output)
		if a.code != 0 || !strings.Contains(strings.ToLower(a.stderr), "records") {
			t.Fatalf("exit %d: %s", a.code, a.stderr)
		}
		if _, _, err := backup.Verify(strings.NewReader(a.stdout)); err != nil {
			t.Errorf("with --output %s stdout is no backup: %v", output, err)
		}
	}
	if _, err := os.Lstat("-"); err == nil {
		t.Error("there is a file named -")
	}

	whole := commandOf(t, p.endpoint, adminKey(t, dir), "admin", "backup", "--out", "-")
	short := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, whole[:len(whole)/2])
	}))
	defer short.Close()
	a := corvoFed(t, nil, []string{"CORVO_ENDPOINT=" + short.URL}, "admin", "backup", "--out", "-")
	if a.code == 0 || len(a.stdout) > len(whole)/2 || !strings.Contains(a.stderr, "truncated") {
		t.Errorf("a backup of which half came: exit %d, %d bytes, %s", a.code, len(a.stdout), a.stderr)
	}

	term := inTerminal(t, 24, 200, env, "admin", "backup", "--out", "-")
	term.cmd.Wait()
	<-term.ended
	if code := term.cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(term.all(), "which is a terminal") {
		t.Errorf("on a terminal: exit %d, %q", code, term.all())
	}
}

// TestRestoreRefusesWhatItCannotDo makes other mistakes and checks that each error gives advice.
func TestRestoreRefusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	some := filepath.Join(t.TempDir(), "some")
	if err := os.WriteFile(some, []byte("not a backup"), 0o600); err != nil {
		t.Fatal(err)
	}
	for says, args := range map[string][]string{
		"--from":          {"admin", "restore", "--data-dir", "x"},
		"--check":         {"admin", "restore", "--from", some},
		"admin backup":    {"admin", "restore", "--from", some, "--data-dir", filepath.Join(t.TempDir(), "x")},
		"holds some":      {"admin", "restore", "--from", some, "--data-dir", filepath.Dir(some)},
		"to a file first": {"admin", "restore", "--from", "-", "--check"},
		"--from: open":    {"admin", "restore", "--from", some + "2", "--check"},
		"give a new file": {"admin", "backup"},
	} {
		a := corvoFed(t, nil, nil, args...)
		if a.code == 0 || says == "--from: open" && a.code != exitMisuse {
			t.Errorf("corvo %s: exit %d %s", strings.Join(args, " "), a.code, a.stderr)
		}
		if !strings.Contains(a.stderr, says) || strings.Contains(a.stderr, "?.") {
			t.Errorf("corvo %s: %s; it should say %q", strings.Join(args, " "), a.stderr, says)
		}
	}
}
