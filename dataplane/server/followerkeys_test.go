package server

import (
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// locked serves a member's cells to those who have a key.
func (m *peer) locked() string {
	m.t.Helper()
	s, err := New(Config{Host: m.host, Namespace: tenancy.Default, ProposeTimeout: time.Minute, ReadWait: time.Minute, NewKeyWait: time.Minute, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		m.t.Fatal(err)
	}
	front := httptest.NewServer(s)
	m.t.Cleanup(func() { s.Drain(); front.Close() })
	return front.URL
}

// makeKey makes a worker's key at a member.
func (m *peer) makeKey() (text, id string) {
	m.t.Helper()
	text = m.giveKey("worker", tenancy.Worker)
	_, id, _ = keyring.Parse(text)
	return text, id
}

// giveKey makes a key at a member.
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

// A key works at every node as soon as one of them has answered its creation, and
// at none once it is revoked: polls that wait elsewhere end at once.
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
			if got := fetchStatus(t, url, key, "0"); got != http.StatusNoContent {
				t.Fatalf("a fetch at node %d with a key that was just made: %d", i, got)
			}
		}
	}
	stranger, _, _, err := keyring.New(rand.Reader, keyring.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	for i, url := range urls {
		if got := fetchStatus(t, url, stranger, "0"); got != http.StatusUnauthorized {
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
	// A poll that nobody ends takes half a minute more than this.
	if took := time.Since(revoked); took > 20*time.Second {
		t.Errorf("the polls ended %v after their key was revoked", took)
	}
}
