package server_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/corvo/corvo/dataplane/state"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

// These keys of the store change without a request that changes anything. Every log entry rewrites the head,
// refusals are written to the audit log, and the leader adds the shipped prices at any time after its start.
var (
	headKey     = []byte{0x01}
	auditPrefix = []byte{0x41}
	pricePrefix = []byte{0x16, byte(state.ResourceKind_RESOURCE_KIND_SHIPPED_PRICE)}
)

// dump returns the store except its head (position, settings, counters), its audit log and the shipped
// prices.
func (n *node) dump() []state.KV {
	n.t.Helper()
	snapshot := n.cell.State().Snapshot()
	defer snapshot.Close()
	var all []state.KV
	for kv, err := range snapshot.All() {
		if err != nil {
			n.t.Fatal(err)
		}
		if !bytes.Equal(kv.Key, headKey) && !bytes.HasPrefix(kv.Key, auditPrefix) && !bytes.HasPrefix(kv.Key, pricePrefix) {
			all = append(all, kv)
		}
	}
	return all
}

// same fails the test unless the store is unchanged.
func (n *node) same(before []state.KV) {
	n.t.Helper()
	after := n.dump()
	if len(before) != len(after) {
		n.t.Errorf("the store has %d records, had %d", len(after), len(before))
		return
	}
	for i := range before {
		if !bytes.Equal(before[i].Key, after[i].Key) || !bytes.Equal(before[i].Value, after[i].Value) {
			n.t.Errorf("record %x has changed", before[i].Key)
		}
	}
}

// equal compares a value with the one that a test wants. A failure lists the fields that differ, and the test goes
// on.
func equal[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if difference := cmp.Diff(want, got, protocmp.Transform()); difference != "" {
		t.Errorf("%s (-want +got):\n%s", what, difference)
	}
}

// wantFields compares the fields that set assigns with those of a value.
func wantFields[T any](t testing.TB, what string, got T, set func(want *T)) {
	t.Helper()
	want := got
	set(&want)
	equal(t, what, got, want)
}

// present fails the test if a value is the zero value of its type.
func present[T comparable](t testing.TB, what string, got T) {
	t.Helper()
	var zero T
	if got == zero {
		t.Errorf("%s is missing", what)
	}
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for tick := time.NewTicker(time.Millisecond); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// ptr returns a pointer to a value.
func ptr[T any](v T) *T { return &v }

// golden compares with a file, or writes it with -rewrite.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *rewrite {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from what the table says now; look at the difference and run the test with -rewrite", path)
	}
}
