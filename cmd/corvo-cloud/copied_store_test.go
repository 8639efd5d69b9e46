package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// TestACopiedStoreIsServedOnce starts a second process on a copy of a host's data directory, beside the first one. The
// first one says so and closes its namespaces, and tenants are served by the second one, with every job.
func TestACopiedStoreIsServedOnce(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	p := newParts(t)
	p.startDirectHost()
	p.startGateway("--host-wait", "1m") // this machine may be slow
	org, err := p.operator.CreateOrg(ctx, api.CreateOrgRequest{Name: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	tenant := p.newTenant(ctx, org.ID, "a")
	made, err := tenant.Enqueue(ctx, api.EnqueueRequest{Queue: "q"})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.host.Terminate(t); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(p.dir, "copy"), os.DirFS(filepath.Join(p.dir, "host"))); err != nil {
		t.Fatal(err)
	}
	p.startDirectHost()
	if _, err := tenant.Job(ctx, made.JobID, client.Read{}); err != nil {
		t.Fatal(err)
	}
	first := p.host
	p.host = start(t, "the host listens on", "host", "--bind", "127.0.0.1:0", "--raft-bind", "127.0.0.1:0", "--fleet-root", p.root,
		"--data-dir", filepath.Join(p.dir, "copy"), "--control-plane", secure(p.control), "--credential-file", p.hostCredential)
	eventually(t, ctx, "the first process closes its namespaces", func() bool {
		return strings.Contains(first.Log(), "another process has its place")
	})
	if log := first.Log(); !strings.Contains(log, "address=https://"+listening(first)) || !strings.Contains(log, "other_address=https://"+listening(p.host)) {
		t.Errorf("the log does not name both addresses:\n%s", log)
	}
	job, err := tenant.Fetch(ctx, api.FetchRequest{Queues: []string{"q"}, WorkerID: "w"})
	if err != nil || job == nil || job.JobID != made.JobID {
		t.Fatalf("the second process hands out %+v, %v", job, err)
	}
	if err := tenant.Ack(ctx, job.JobID, api.AckRequest{LeaseToken: job.LeaseToken}); err != nil {
		t.Fatal(err)
	}
	if err := first.Terminate(t); err != nil {
		t.Errorf("the first process does not shut down in order: %v", err)
	}
}
