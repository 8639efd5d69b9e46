package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/router"
	"github.com/corvo/corvo/durable"
)

// DefaultMinFreeDisk is the least free disk space of a ready node, in bytes. The log and the store write
// about that much before they can free space.
const DefaultMinFreeDisk = 64 << 20

// MaxApplyLag is the largest number of committed entries that a ready node's store may lack. If a node lacked
// more, its data would be much older than the other nodes'.
const MaxApplyLag = 10_000

// healthz reports whether the process can work at all: the store and the view of each shard answer. On a host
// of the cloud healthz does not look at namespaces, because one broken namespace is no reason to restart all
// of them; readyz reports a broken namespace.
func (s *Server) healthz(w http.ResponseWriter, r *http.Request) error {
	if s.cloud() {
		return serve.WriteJSON(w, http.StatusOK, api.Health{Status: "ok"})
	}
	shards, err := router.Open(s.cfg.Host, s.cfg.Namespace)
	if err == nil {
		err = router.Scatter(shards.Count(), func(i int) error { return alive(r.Context(), shards.All()[i]) })
	}
	if err != nil && r.Context().Err() == nil {
		s.cfg.Logger.Error("unhealthy", "error", err)
	}
	if err != nil {
		return api.Wrap(err, api.Unhealthy, "this node cannot serve: see its log; restart it, or take it out of service")
	}
	return serve.WriteJSON(w, http.StatusOK, api.Health{Status: "ok"})
}

// alive checks that the store and the view answer a read.
func alive(ctx context.Context, c *cell.Cell) error {
	if err := c.Failed(); err != nil {
		return err
	}
	if _, err := c.State().Job(job.ID{}); err != nil { // no job has this id, but the store must be able to read
		return err
	}
	err := c.View().Check(ctx)
	switch api.CodeOf(err) {
	case api.ViewBehind:
		// The view is being built. A restart would begin again, so only a failed build counts as an error.
		return c.View().Err()
	case api.Overloaded:
		return nil // the view works but runs other queries first
	}
	return err
}

// readyz reports whether clients should send requests to this node.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) error {
	if s.cloud() {
		return s.hostReady(w)
	}
	shards, err := router.Open(s.cfg.Host, s.cfg.Namespace)
	if err != nil {
		return api.Wrap(err, api.Unhealthy, "this node is not ready: its data is not open")
	}
	facts := readiness{draining: s.draining.Err() != nil, led: true, least: s.cfg.MinFreeDisk}
	for _, c := range shards.All() {
		facts.add(c)
	}
	facts.free, facts.freeErr = shards.Home().FreeDisk() // all shards lie on one disk
	checks, err := facts.judge()
	if err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, api.Health{Status: "ok", Checks: checks})
}

// hostReady serves /readyz on a host of the cloud: it checks that the host does not drain, that keys can be
// authenticated, that the cells are sound and that gateways accept the host's certificate. The response names no namespace, because probes send no key.
func (s *Server) hostReady(w http.ResponseWriter) error {
	checks := map[string]string{"serving": "ok", "keys": "ok", "cells": "ok"}
	if s.draining.Err() != nil {
		checks["serving"] = "it is shutting down"
	}
	if err := s.cfg.Authenticator.Ready(); err != nil {
		checks["keys"] = err.Error()
	}
	if err := s.soundCells(); err != nil {
		s.cfg.Logger.Error("not ready", "error", err)
		checks["cells"] = "a namespace's log, store or view has failed: see the host's log"
		if errors.Is(err, durable.ErrFull) {
			checks["cells"] = "disk full: a namespace's log or store has stopped; make room and restart the host"
		}
	}
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(checks)) {
		if checks[name] != "ok" {
			wrong = append(wrong, checks[name])
		}
	}
	if held := s.cfg.Certificate; held != nil {
		var usable bool
		if checks["certificate"], usable = held.Health(); !usable {
			wrong = append(wrong, checks["certificate"])
		}
	}
	if len(wrong) == 0 {
		return serve.WriteJSON(w, http.StatusOK, api.Health{Status: "ok", Checks: checks})
	}
	refused := api.Errorf(api.Unhealthy, "this host is not ready: %s", strings.Join(wrong, "; "))
	refused.Details = map[string]any{"checks": checks}
	return refused
}

// soundCells returns the failure of the first open cell that has one.
func (s *Server) soundCells() error {
	for _, ns := range s.cfg.Host.Namespaces() {
		cells, err := s.cfg.Host.Cells(ns)
		if err != nil {
			continue // closed in the meantime
		}
		if err := sound(cells); err != nil {
			return fmt.Errorf("namespace %s: %w", ns, err)
		}
	}
	return nil
}

// sound returns the failure of the first cell that has one.
func sound(cells []*cell.Cell) error {
	for _, c := range cells {
		if err := c.Err(); err != nil {
			return fmt.Errorf("shard %d: %w", c.Shard(), err)
		}
	}
	return nil
}

// readiness collects the facts that decide whether a node is ready.
type readiness struct {
	draining   bool
	failed     bool   // the log, store or duties of a shard have failed
	full       bool   // the failure is a full disk
	led        bool   // this node knows a leader of every shard
	applyLag   uint64 // committed entries that a store lacks
	viewErr    error  // the failure of a view
	viewLag    uint64
	viewBehind time.Duration
	free       int64 // free bytes of disk
	freeErr    error
	least      int64 // bytes that must be free
}

// add adds a shard; the worst shard counts.
func (f *readiness) add(c *cell.Cell) {
	status, err := c.Status()
	f.failed = f.failed || c.Failed() != nil || err != nil
	f.full = f.full || errors.Is(c.Failed(), durable.ErrFull)
	f.led = f.led && c.Led()
	if e := &status.Engine; e.Commit > e.Applied.Index {
		f.applyLag = max(f.applyLag, e.Commit-e.Applied.Index)
	}
	if f.viewErr == nil {
		f.viewErr = c.View().Err()
	}
	lag, behind := c.View().Lag()
	f.viewLag, f.viewBehind = max(f.viewLag, lag), max(f.viewBehind, behind)
}

// judge returns "ok" or the problem for each check. If the node is not ready, it also returns an error with
// the checks in its details: LEADER_UNAVAILABLE if only a leader is missing, or else UNHEALTHY. The checks
// contain no secret, because probes send no key.
//
// The lag of the view is reported but decides nothing. Reads from the view wait, answer with the view's age
// or are refused. All other requests work, and they would fail if a sole node were taken out of service while
// its view is being built.
func (f *readiness) judge() (checks map[string]string, err error) {
	checks = make(map[string]string)
	var wrong []string
	check := func(name string, ok bool, reason string) {
		if !ok {
			wrong = append(wrong, reason)
			checks[name] = reason
		} else if checks[name] == "" {
			checks[name] = "ok"
		}
	}
	check("serving", !f.draining, "it is shutting down")
	failure := "its log or its store has failed: see the node's log"
	if f.full {
		failure = "disk full: its log or its store has stopped; make room and restart it"
	}
	check("store", !f.failed, failure)
	check("leader", f.led, "it does not lead and knows no leader")
	check("applied", f.applyLag <= MaxApplyLag, fmt.Sprintf("its store is %d entries behind its log, more than %d: it is catching up", f.applyLag, MaxApplyLag))
	if f.viewLag > 0 {
		checks["view"] = fmt.Sprintf("ok, %d events behind for %v", f.viewLag, f.viewBehind.Round(time.Millisecond))
	}
	check("view", f.viewErr == nil, "its view does not follow: see the node's log")
	switch {
	case errors.Is(f.freeErr, errors.ErrUnsupported):
		checks["disk"] = "ok, unknown on this system"
	case f.freeErr != nil:
		check("disk", false, "its disk does not report its free space")
	default:
		check("disk", f.free >= f.least, fmt.Sprintf("%d bytes of disk are free, fewer than the %d that it needs: free disk space", f.free, f.least))
	}
	if len(wrong) == 0 {
		return checks, nil
	}
	code := api.Unhealthy
	if len(wrong) == 1 && !f.led {
		code = api.LeaderUnavailable
	}
	refused := api.Errorf(code, "this node is not ready: %s", strings.Join(wrong, "; "))
	refused.Details = map[string]any{"checks": checks}
	return checks, refused
}
