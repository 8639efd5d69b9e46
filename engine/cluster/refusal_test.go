package cluster

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
)

// overTCP opens a cluster on the real transport.
func overTCP(t *testing.T, ctx context.Context, cfg Config) (*Cluster, error) {
	t.Helper()
	var err error
	if cfg.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	cfg.DataDir, cfg.Level, cfg.Logger = t.TempDir(), 1, silent
	c, err := Open(ctx, cfg)
	if err == nil {
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return c, err
}

// TestAnotherSecretIsRefusedAtOnce checks that a node with another secret returns UNAUTHORIZED and does not
// try for ever.
func TestAnotherSecretIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	founder, err := overTCP(t, ctx, Config{NodeID: "node-0", Token: testSecret, Bootstrap: true})
	if err != nil {
		t.Fatal(err)
	}
	stranger := Config{NodeID: "node-1", Token: testSecret + "x", Join: []string{founder.Address()}}
	if _, err := overTCP(t, ctx, stranger); api.CodeOf(err) != api.Unauthorized || !strings.Contains(err.Error(), "another join token") {
		t.Errorf("%v", err)
	}
	if ctx.Err() != nil {
		t.Error("it knocked until the test's time was over")
	}
}

// TestOneRefusalOfSeveralIsNotTheEnd checks that a node keeps trying while one address refuses finally and
// another may still accept it.
func TestOneRefusalOfSeveralIsNotTheEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	other, err := overTCP(t, ctx, Config{NodeID: "node-0", Token: testSecret, Bootstrap: true})
	if err != nil {
		t.Fatal(err)
	}
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := nobody.Close(); err != nil {
		t.Fatal(err)
	}
	// Many more tries than the two that matter, because a busy machine may need seconds for one.
	tries, stop := context.WithTimeout(ctx, 10*joinInterval)
	defer stop()
	stranger := Config{NodeID: "node-1", Token: testSecret + "x", Join: []string{other.Address(), nobody.Addr().String()}}
	begun := time.Now()
	if _, err := overTCP(t, tries, stranger); api.CodeOf(err) != api.LeaderUnavailable || !strings.Contains(err.Error(), "another join token") {
		t.Errorf("%v", err)
	}
	if time.Since(begun) < joinInterval {
		t.Error("it gave up")
	}
}
