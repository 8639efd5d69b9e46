package server_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/tenancy"
)

// ready asks /readyz and returns the checks that are not ok.
func (n *node) ready() (status int, code api.Code, wrong map[string]string) {
	n.t.Helper()
	a := n.send("GET", "/readyz", "", "")
	var body struct {
		Code    api.Code
		Checks  map[string]string
		Details struct{ Checks map[string]string }
	}
	if err := json.Unmarshal(a.body, &body); err != nil {
		n.t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	checks := body.Checks
	if a.status != 200 {
		checks = body.Details.Checks
	}
	wrong = make(map[string]string)
	for _, name := range []string{"serving", "store", "leader", "view", "disk"} {
		text, ok := checks[name]
		if !ok {
			n.t.Errorf("readyz does not tell of %s: %s", name, a.body)
		}
		if text != "ok" && !strings.HasPrefix(text, "ok, ") {
			wrong[name] = text
		}
	}
	return a.status, body.Code, wrong
}

// wantReady checks which checks of /readyz fail; none means that the node is ready.
func (n *node) wantReady(code api.Code, failing ...string) {
	n.t.Helper()
	status, got, wrong := n.ready()
	want := 200
	if len(failing) > 0 {
		want = 503
	}
	ok := status == want && got == code && len(wrong) == len(failing)
	for _, name := range failing {
		ok = ok && wrong[name] != ""
	}
	if !ok {
		n.t.Errorf("readyz: %d %s %v, want %d %s with %v", status, got, wrong, want, code, failing)
	}
}

func (n *node) wantAlive(status int) {
	n.t.Helper()
	if a := n.send("GET", "/healthz", "", ""); a.status != status {
		n.t.Errorf("healthz: %d %s, want %d", a.status, a.body, status)
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	n.wantReady("")
	n.wantAlive(200)
	n.server.Drain()
	n.wantReady(api.Unhealthy, "serving")
	n.wantAlive(200)
}

func TestNotReadyWithoutDisk(t *testing.T) {
	t.Parallel()
	n := startNode(t, func(cfg *server.Config) { cfg.MinFreeDisk = math.MaxInt64 })
	n.wantReady(api.Unhealthy, "disk")
	n.wantAlive(200)
}

func TestNotReadyWithoutLeader(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	if err := n.cell.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	n.wantReady(api.LeaderUnavailable, "leader")
	n.wantAlive(503) // neither Pebble nor SQLite works
}

// A view that cannot be written is no reason to restart the node: reads still work, and writes continue as
// soon as they can.
func TestNotReadyWhileTheViewIsStuck(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	if err := n.cell.View().Wait(context.Background(), uint64(n.cell.Applied())); err != nil {
		t.Fatal(err)
	}
	unlock := lockView(t, filepath.Join(n.dir, "ns", string(tenancy.Default), "0", "view", "view.db"))
	if a := n.send("POST", "/api/v1/enqueue", n.admin, `{"queue":"q"}`); a.status != 201 {
		t.Fatalf("enqueue: %d %s", a.status, a.body)
	}
	eventually(t, "the view fails", func() bool { return n.cell.View().Err() != nil })
	n.wantReady(api.Unhealthy, "view")
	n.wantAlive(200)
	figures := n.figures()
	if figures["corvo_healthy"] != 0 || figures[`corvo_view_lag_events{shard="0"}`] != 1 || figures[`corvo_view_lag_seconds{shard="0"}`] <= 0 {
		t.Errorf("healthy %v, %v events behind for %v s", figures["corvo_healthy"], figures[`corvo_view_lag_events{shard="0"}`], figures[`corvo_view_lag_seconds{shard="0"}`])
	}
	unlock()
	eventually(t, "the view follows", func() bool { return n.cell.View().Err() == nil })
	n.wantReady("")
}

// lockView prevents the view from writing, as another process could.
func lockView(t *testing.T, path string) (unlock func()) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(context.Background(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := errors.Join(conn.Close(), db.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
