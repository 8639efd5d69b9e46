package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/cmd/internal/proctest"
)

// tryLine returns the greeting's curl line without its "try: ".
func (p *process) tryLine(t *testing.T) string {
	t.Helper()
	line := p.Greeting[len(p.Greeting)-1]
	command, ok := strings.CutPrefix(line, "try: ")
	if !ok {
		t.Fatalf("the greeting ends in %q", line)
	}
	return command
}

func TestTheFirstStartMakesAKeyAndEveryStartPrintsALineThatWorks(t *testing.T) {
	t.Parallel()
	proctest.NeedCurl(t)
	dir := t.TempDir()
	first := startServer(t, "--data-dir", dir)
	key := adminKey(t, dir)
	if info, err := os.Stat(filepath.Join(dir, "admin.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("admin.key: mode %v, %v", info.Mode(), err)
	}
	if shown := strings.Count(strings.Join(first.Greeting, "\n"), "admin key"); shown != 1 {
		t.Errorf("the key was announced %d times", shown)
	}
	assertEnqueued(t, proctest.Paste(t, first.tryLine(t)))
	if err := first.Terminate(t); err != nil {
		t.Fatalf("after SIGTERM: %v", err)
	}

	second := startServer(t, "--data-dir", dir)
	if text := strings.Join(second.Greeting, "\n"); strings.Contains(text, key) {
		t.Errorf("a later start shows the key again: %s", text)
	}
	assertEnqueued(t, proctest.Paste(t, second.tryLine(t)))
	if again := adminKey(t, dir); again != key {
		t.Error("a later start made another key")
	}
	queue, err := newClient(t, second.endpoint, key).Queue(t.Context(), "hello", client.Read{})
	if err != nil || queue.Pending != 2 {
		t.Errorf("%d jobs are pending after a restart, want 2 (%v)", queue.Pending, err)
	}
}

func assertEnqueued(t *testing.T, answer []byte) {
	t.Helper()
	var res api.EnqueueResponse
	if err := json.Unmarshal(answer, &res); err != nil || res.Status != "pending" || !strings.HasPrefix(res.JobID, "job_") {
		t.Fatalf("the line answered %s (%v)", answer, err)
	}
}

// TestAKeyFileWithoutItsKeyIsUsed imitates a crash after writing the key's file and before storing the key.
// The next start must use that key and not create another.
func TestAKeyFileWithoutItsKeyIsUsed(t *testing.T) {
	t.Parallel()
	made := t.TempDir()
	p := startServer(t, "--data-dir", made)
	p.Kill(t)
	dir := t.TempDir()
	if err := os.Rename(filepath.Join(made, "admin.key"), filepath.Join(dir, "admin.key")); err != nil {
		t.Fatal(err)
	}
	key := adminKey(t, dir)
	p = startServer(t, "--data-dir", dir)
	if _, err := newClient(t, p.endpoint, key).Queues(t.Context(), client.Read{}); err != nil {
		t.Error(err)
	}
}

func TestDevIsOpenOnlyUntilThereIsAKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startServer(t, "--data-dir", dir, "--dev")
	if _, err := newClient(t, p.endpoint, "").Enqueue(t.Context(), api.EnqueueRequest{Queue: "q"}); err != nil {
		t.Errorf("without a key: %v", err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.endpoint+"/api/v1/queues", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Forwarded-For", "192.0.2.1")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusForbidden {
		t.Errorf("a forwarded request was answered %s", res.Status)
	}
	if err := p.Terminate(t); err != nil {
		t.Fatal(err)
	}

	p = startServer(t, "--data-dir", dir) // secures it
	if _, err := newClient(t, p.endpoint, "").Queues(t.Context(), client.Read{}); api.CodeOf(err) != api.Unauthorized {
		t.Errorf("without a key: %v, want %s", err, api.Unauthorized)
	}
	if err := p.Terminate(t); err != nil {
		t.Fatal(err)
	}
	if _, err := launch(t, "--data-dir", dir, "--dev"); err == nil || !strings.Contains(err.Error(), "never becomes open again") {
		t.Errorf("--dev on a store with a key: %v", err)
	}
}

func TestASecondServerOnTheSameDataIsRefused(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{nil, {"--raft-bind", "127.0.0.1:0"}} {
		args := append([]string{"--data-dir", t.TempDir()}, flags...)
		startServer(t, args...)
		if _, err := launch(t, args...); err == nil || !strings.Contains(err.Error(), args[1]+": in use: stop the other process first") {
			t.Errorf("%v: of a second process on the same data: %v", flags, err)
		}
	}
}

func TestSIGTERMEndsWaitingPollsAndLosesNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), proctest.StartTimeout)
	defer cancel()
	dir := t.TempDir()
	p := startServer(t, "--data-dir", dir, "--dev", "--shutdown-timeout", "2m") // longer than the poll
	c := newClient(t, p.endpoint, "")
	polled := make(chan error, 1)
	go func() {
		wait := 60
		job, err := c.Fetch(ctx, api.FetchRequest{Queues: []string{"empty"}, Timeout: &wait})
		if job != nil {
			t.Error("fetched something from an empty queue")
		}
		polled <- err
	}()
	if _, err := c.Enqueue(ctx, api.EnqueueRequest{Queue: "kept"}); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := p.Terminate(t); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 50*time.Second {
		t.Errorf("the shutdown sat a poll out: %v", took)
	}
	<-polled // 204, or cut off before it was parked: it ended either way

	p = startServer(t, "--data-dir", dir, "--dev")
	queue, err := newClient(t, p.endpoint, "").Queue(ctx, "kept", client.Read{})
	if err != nil || queue.Pending != 1 {
		t.Errorf("%d jobs are pending, want 1 (%v)", queue.Pending, err)
	}
}

// TestTheBannerShowsTheAddressForOtherNodes checks that the banner shows the address for other nodes with its
// actual port.
func TestTheBannerShowsTheAddressForOtherNodes(t *testing.T) {
	t.Parallel()
	p := startServer(t, "--data-dir", t.TempDir(), "--raft-bind", "127.0.0.1:0")
	for _, line := range p.Greeting {
		if address, ok := strings.CutPrefix(line, "other nodes connect to "); ok {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatalf("nobody listens where the banner says: %v", err)
			}
			conn.Close()
			return
		}
	}
	t.Errorf("the banner is %q", p.Greeting)
}
