package server

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// TestHeartbeat is the heartbeat of a test's event stream. A heartbeat follows all earlier events.
const TestHeartbeat = 5 * time.Millisecond

// Opened is a server of a new host that has the default namespace. It has no listener: the harness of package
// server_test adds one, and the tests of this package call the server's functions.
type Opened struct {
	Server *Server
	Host   *host.Host
	Cell   *cell.Cell // of the first shard
	Dir    string     // the host's data directory
	Close  func()     // closes the host; a test may call it before its end
}

// OpenForTest opens a host and a server of it. change may alter the server's configuration.
func OpenForTest(t testing.TB, on host.Config, spec host.Spec, change func(*Config)) *Opened {
	t.Helper()
	ctx := context.Background()
	if on.Logger == nil {
		on.Logger = slog.New(slog.DiscardHandler)
	}
	if on.DataDir == "" {
		on.DataDir = t.TempDir()
	}
	on.NodeID = "n1"
	h, err := host.Open(on)
	if err != nil {
		t.Fatal(err)
	}
	o := &Opened{Host: h, Dir: on.DataDir, Close: sync.OnceFunc(func() {
		if err := h.Close(ctx); err != nil {
			t.Errorf("close the host: %v", err)
		}
	})}
	t.Cleanup(o.Close)
	if err := errors.Join(h.Add(ctx, tenancy.Default, spec), h.Ready(ctx, tenancy.Default)); err != nil {
		t.Fatal(err)
	}
	cells, err := h.Cells(tenancy.Default)
	if err != nil {
		t.Fatal(err)
	}
	o.Cell = cells[0]
	// The waits are long, because a busy disk must not fail a test.
	cfg := Config{
		Host: h, Namespace: tenancy.Default, Version: "test", ProposeTimeout: time.Minute, ReadWait: time.Minute, FreshWait: time.Minute,
		EventHeartbeat: TestHeartbeat, Logger: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&cfg)
	}
	if o.Server, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	return o
}

// KeyForTest stores a key in a shard and returns the key's text.
func KeyForTest(t testing.TB, in *cell.Cell, k tenancy.Key) string {
	t.Helper()
	text, id, hash, err := keyring.New(rand.Reader, keyring.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	k.ID, k.Hash, k.Enabled = id, hash, true
	create := &op.CreateKey{Meta: &op.Meta{Principal: "test"}, Key: convert.ToKeyRecord(k)}
	if _, _, err := cell.Propose[*op.CreateKeyResult](context.Background(), in, create); err != nil {
		t.Fatal(err)
	}
	return text
}

// KeyIDForTest returns the id of a key's text.
func KeyIDForTest(text string) string {
	_, id, _ := keyring.Parse(text)
	return id
}
