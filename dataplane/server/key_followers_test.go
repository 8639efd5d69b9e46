package server_test

import (
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api/rpc"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// locked serves a member's cells and requires keys.
func (m *peer) locked() string {
	m.t.Helper()
	s, err := server.New(server.Config{Host: m.host, Namespace: tenancy.Default, ProposeTimeout: time.Minute, ReadWait: time.Minute, FreshWait: time.Minute, NewKeyWait: time.Minute, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		m.t.Fatal(err)
	}
	front := httptest.NewServer(s)
	m.t.Cleanup(func() { s.Drain(); front.Close() })
	return front.URL
}

// makeKey creates a worker's key at a member.
func (m *peer) makeKey() (text, id string) {
	m.t.Helper()
	text = m.giveKey("worker", tenancy.Worker)
	_, id, _ = keyring.Parse(text)
	return text, id
}

// giveKey creates a key at a member.
func (m *peer) giveKey(name string, role tenancy.Role) string {
	m.t.Helper()
	text, id, hash, err := keyring.New(rand.Reader, keyring.Namespace)
	if err != nil {
		m.t.Fatal(err)
	}
	_, _, err = cell.Propose[*op.CreateKeyResult](m.t.Context(), m.cells()[0], &op.CreateKey{Key: &state.Key{
		Id: id, Name: name, Roles: []string{string(role)}, Hash: hash[:], Enabled: true,
	}})
	if err != nil {
		m.t.Fatal(err)
	}
	return text
}

func fetchStatus(t *testing.T, url, key string, seconds string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", url+"/api/v1/fetch", strings.NewReader(`{"queues":["empty"],"worker_id":"w","timeout":`+seconds+`}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode
}

// judged returns the status of a fetch after the node has learnt whether the key is valid. It repeats on 503,
// which a node answers while it cannot know, such as during an election.
func judged(t *testing.T, url, key string) (status int) {
	t.Helper()
	eventually(t, "the key is judged", func() bool {
		status = fetchStatus(t, url, key, "0")
		return status != http.StatusServiceUnavailable
	})
	return status
}

// A node that cannot ask the leader does not know whether an unknown key is valid. It says so, and not that
// the key is wrong.
func TestAKeyThatCannotBeJudgedIsNotCalledWrong(t *testing.T) {
	t.Parallel()
	members := startPeers(t, 1)
	for _, m := range members {
		if m.cells()[0].Leader() {
			continue
		}
		s, err := server.New(server.Config{Host: m.host, Namespace: tenancy.Default, NewKeyWait: time.Nanosecond, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		front := httptest.NewServer(s)
		t.Cleanup(func() { s.Drain(); front.Close() })
		stranger, _, _, err := keyring.New(rand.Reader, keyring.Namespace)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/api/v1/fetch", "/api/v1/queues", rpc.Prefix + "FetchBatch"} {
			answer := askAs(t, front.URL, path, stranger)
			text, err := io.ReadAll(answer.Body)
			if err != nil || answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" && !strings.Contains(string(text), `"retryDelay":"1s"`) {
				t.Errorf("%s: %d %s %v: %s", path, answer.StatusCode, answer.Header, err, text)
			}
		}
		if answer := askAs(t, front.URL, "/api/v1/fetch", "no key at all"); answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("a text that no key has: %d", answer.StatusCode)
		}
		s.FillNewKeys()
		if answer := askAs(t, front.URL, "/api/v1/fetch", stranger); answer.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("beyond the bound: %d", answer.StatusCode)
		}
	}
}

func askAs(t *testing.T, url, path, key string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", url+path, strings.NewReader(`{"queues":["empty"],"worker_id":"w"}`))
	if err != nil {
		t.Fatal(err)
	}
	if path == "/api/v1/queues" {
		r.Method, r.Body, r.ContentLength = "GET", nil, 0
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	return answer
}

// A key works at every node as soon as one has answered its creation. At its revocation it stops working at
// every node, and waiting polls end at once.
func TestKeysAreTheSameEverywhere(t *testing.T) {
	t.Parallel()
	members := startPeers(t, 1)
	var urls []string
	for _, m := range members {
		urls = append(urls, m.locked())
	}
	var key, id string
	for range 20 {
		key, id = members[0].makeKey()
		for i, url := range urls {
			if got := judged(t, url, key); got != http.StatusNoContent {
				t.Fatalf("a fetch at node %d with a key that was just made: %d", i, got)
			}
		}
	}
	stranger, _, _, err := keyring.New(rand.Reader, keyring.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	for i, url := range urls {
		if got := judged(t, url, stranger); got != http.StatusUnauthorized {
			t.Errorf("a stranger's fetch at node %d: %d", i, got)
		}
	}

	ended := make(chan int)
	for _, url := range urls {
		go func() { ended <- fetchStatus(t, url, key, "60") }()
	}
	for _, m := range members {
		eventually(t, "the poll waits", func() bool {
			p, err := m.host.Polls(tenancy.Default)
			return err == nil && p.Parked == 1
		})
	}
	if _, _, err := cell.Propose[*op.RevokeKeyResult](t.Context(), members[0].cells()[0], &op.RevokeKey{Id: id}); err != nil {
		t.Fatal(err)
	}
	revoked := time.Now()
	for range urls {
		if got := <-ended; got != http.StatusUnauthorized {
			t.Errorf("a poll whose key was revoked ended with %d", got)
		}
	}
	// A poll that is not ended would take half a minute longer.
	if took := time.Since(revoked); took > 20*time.Second {
		t.Errorf("the polls ended %v after their key was revoked", took)
	}
}
