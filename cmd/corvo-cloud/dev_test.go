package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/cmd/internal/proctest"
)

func TestDevGreetsWithALineThatWorksAndKeepsItsKeys(t *testing.T) {
	t.Parallel()
	proctest.NeedCurl(t)
	dir := t.TempDir()
	first := startDev(t, dir)
	var made api.EnqueueResponse
	line := first.tryLine(t)
	if err := json.Unmarshal(proctest.Paste(t, line), &made); err != nil || made.Status != "pending" {
		t.Fatalf("%s\nanswered %+v, %v", line, made, err)
	}
	orgs, err := first.cloud(t).Orgs(t.Context())
	if err != nil || len(orgs) != 1 || orgs[0].Name != "demo" {
		t.Fatalf("the cloud token sees %+v, %v", orgs, err)
	}
	if err := first.Terminate(t); err != nil {
		t.Fatalf("SIGTERM: %v\n%s", err, first.Log())
	}

	second := startDev(t, dir)
	for _, name := range []string{"CORVO_API_KEY", "CORVO_CLOUD_TOKEN"} {
		if first.env[name] == "" || first.env[name] != second.env[name] {
			t.Errorf("%s is not kept", name)
		}
	}
	job, err := second.client(t).Job(t.Context(), made.JobID, client.Read{})
	if err != nil || job.State != "pending" {
		t.Errorf("the job of the first start is %+v, %v", job, err)
	}
}

// TestAKilledFirstStartIsFinishedByTheNext kills a first start at several moments. The next start finishes
// it, without a second organisation, namespace, key or token.
func TestAKilledFirstStartIsFinishedByTheNext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	dir := t.TempDir()
	for _, reached := range []string{"secrets/operator", "secrets/gateway", "secrets/demo-key", "host/ns/*"} {
		p, err := proctest.Spawn(t, proctest.Build(t, "../..", "./cmd/corvo-cloud"), "dev", "--bind", "127.0.0.1:0", "--data-dir", dir, "--log-level", "warn")
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, ctx, reached, func() bool {
			found, err := filepath.Glob(filepath.Join(dir, reached))
			return err == nil && len(found) > 0
		})
		p.Kill(t)
	}
	d := startDev(t, dir)
	cloud := d.cloud(t)
	orgs, err := cloud.Orgs(ctx)
	if err != nil || len(orgs) != 1 {
		t.Fatalf("%d organisations, %v", len(orgs), err)
	}
	namespaces, err := cloud.Namespaces(ctx, orgs[0].ID)
	if err != nil || len(namespaces) != 1 || namespaces[0].Status.Phase != api.NamespaceActive {
		t.Fatalf("namespaces: %+v, %v", namespaces, err)
	}
	keys, err := cloud.NamespaceKeys(ctx, namespaces[0].ID)
	if err != nil || len(keys) != 1 {
		t.Fatalf("keys: %+v, %v", keys, err)
	}
	tokens, err := cloud.Tokens(ctx, orgs[0].ID)
	if err != nil || len(tokens) != 1 {
		t.Fatalf("tokens: %+v, %v", tokens, err)
	}
	if _, err := d.client(t).Enqueue(ctx, api.EnqueueRequest{Queue: "q"}); err != nil {
		t.Fatal(err)
	}
}

// TestAnInterruptedStartOfDevEndsWithoutAnError interrupts a first start at several moments.
func TestAnInterruptedStartOfDevEndsWithoutAnError(t *testing.T) {
	t.Parallel()
	for _, reached := range []string{"cloud.log", "secrets/operator", "secrets/gateway", "host-2/pid", "host*/ns/*"} {
		t.Run(reached, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
			defer cancel()
			dir := t.TempDir()
			p, err := proctest.Spawn(t, proctest.Build(t, "../..", "./cmd/corvo-cloud"), "dev", "--bind", "127.0.0.1:0", "--data-dir", dir, "--hosts", "2")
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, ctx, reached, func() bool {
				found, err := filepath.Glob(filepath.Join(dir, reached))
				return err == nil && len(found) > 0
			})
			if err := p.Terminate(t); err != nil {
				t.Errorf("%v\n%s", err, p.Log())
			}
			for _, host := range []string{"host", "host-2"} {
				if _, err := os.Stat(filepath.Join(dir, host, "pid")); err == nil && runs(t, dir, host) {
					t.Errorf("%s still runs", host)
				}
			}
		})
	}
}
