package server

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"testing"
	"testing/iotest"
	"time"

	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/controlplane/store"
)

// TestProcessesShareOneRoot opens the authority several times at once on an empty store, and again later.
func TestProcessesShareOneRoot(t *testing.T) {
	t.Parallel()
	s, err := store.Open(store.Config{Dir: t.TempDir(), NodeID: "n1", Rand: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	config := func(random io.Reader) AuthorityConfig {
		return AuthorityConfig{Store: s, Now: time.Now, Rand: random, Logger: slog.New(slog.DiscardHandler)}
	}
	broken := errors.New("no randomness")
	if _, err := OpenAuthority(t.Context(), config(iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("a root without randomness: %v", err)
	}
	const processes = 4
	opened := make(chan *Authority, processes)
	for range processes {
		go func() {
			a, err := OpenAuthority(t.Context(), config(rand.Reader))
			if err != nil {
				t.Error(err)
			}
			opened <- a
		}()
	}
	first := <-opened
	for range processes - 1 {
		if a := <-opened; a == nil || first == nil || a.Fingerprint() != first.Fingerprint() {
			t.Fatalf("one process has %v, another %v", first, a)
		}
	}
	later, err := OpenAuthority(t.Context(), config(iotest.ErrReader(broken))) // it makes nothing
	if err != nil || later.Fingerprint() != first.Fingerprint() {
		t.Fatalf("a later process has another root: %v", err)
	}
	if got := later.Bundle().Fingerprints(); len(got) != 1 || got[0] != later.Fingerprint() {
		t.Errorf("the bundle is %v", got)
	}
	if _, err := certificate.ParseFingerprint(later.Fingerprint()); err != nil {
		t.Error(err)
	}
}
