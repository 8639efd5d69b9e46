package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/dataplane/backup"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/tenancy"
)

// TestAnOlderBinaryRefusesWhatANewerOneWrote checks that a downgraded binary opens no data directory and
// restores no backup of a node with a newer feature level. It gives advice and changes nothing.
func TestAnOlderBinaryRefusesWhatANewerOneWrote(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	node := startServer(t, "--data-dir", dir)
	if err := node.Terminate(t); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "newer")
	raised := asNewer(t, dir, file)
	fresh := filepath.Join(t.TempDir(), "fresh")
	for what, c := range map[string]struct {
		says string
		args []string
	}{
		"open":    {"the store has feature level 3, this binary knows 2: start a newer one", []string{"server", "--bind", "127.0.0.1:0", "--raft-bind", "off", "--data-dir", dir}},
		"check":   {"the backup has feature level 3, this binary knows 2: restore it with corvo 9.9.9 or newer", []string{"admin", "restore", "--from", file, "--check"}},
		"restore": {"the backup has feature level 3, this binary knows 2: restore it with corvo 9.9.9 or newer", []string{"admin", "restore", "--from", file, "--data-dir", fresh}},
	} {
		if a := corvoFed(t, nil, nil, c.args...); a.code != 1 || !strings.Contains(a.stderr, c.says) {
			t.Errorf("%s: exit %d %s; it should say %q", what, a.code, a.stderr, c.says)
		}
	}
	if left, err := os.ReadDir(fresh); err == nil && len(left) > 0 {
		t.Errorf("a restore that was refused has left %v", left)
	}
	store := storeOf(t, dir)
	defer store.Close()
	if now := store.Applied(); now != raised {
		t.Errorf("the store is at %+v, was at %+v", now, raised)
	}
}

// asNewer raises a stopped node's store to the level after this binary's, as an entry of a newer binary
// would, and makes a backup of it.
func asNewer(t *testing.T, dir, file string) entry.Applied {
	t.Helper()
	store := storeOf(t, dir)
	defer store.Close()
	at := store.Applied()
	at.Index++
	tx := store.Begin(at, entry.Header{Level: op.FeatureLevel, Incarnation: at.Incarnation, ClockNs: time.Now().UnixNano()})
	tx.Head().FeatureLevel = op.FeatureLevel + 1
	if err := errors.Join(tx.Commit(), store.Flush()); err != nil {
		t.Fatal(err)
	}
	cut, err := backup.Take(t.Context(), []*state.Store{store})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := cut.Write(&out, string(tenancy.Default), "9.9.9", time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(cut.Close(), os.WriteFile(file, out.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	return at
}

func storeOf(t *testing.T, dir string) *state.Store {
	t.Helper()
	store, err := state.Open(filepath.Join(dir, "ns", string(tenancy.Default), "0", "state"), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return store
}
