package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/cmd/internal/proctest"
	"github.com/corvo/corvo/durable"
)

// hostProcess returns the number of the process of a host of a development cloud.
func hostProcess(t *testing.T, dir, host string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, host, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// runs reports whether the process of a host runs, which has its directory locked.
func runs(t *testing.T, dir, host string) bool {
	t.Helper()
	lock, err := durable.Lock(filepath.Join(dir, host))
	if errors.Is(err, durable.ErrInUse) {
		return true
	}
	if err == nil {
		err = lock.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return false
}

// ports returns the addresses of the parts, by name, of the banner.
func (d dev) ports() map[string]string {
	all := map[string]string{}
	for _, line := range d.Greeting {
		if name, url, ok := strings.Cut(strings.TrimSpace(line), " on https://127.0.0.1:"); ok {
			all[name] = url
		}
	}
	return all
}

// TestDevWithSeveralHosts starts a development cloud with three hosts. Each is a process with its own log, its namespaces
// are spread over all of them, one that is killed is started again with its port, and all end with the cloud.
func TestDevWithSeveralHosts(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	hosts := []string{"host", "host-2", "host-3"}
	dir := t.TempDir()
	d := startDev(t, dir, "--hosts", "3")
	ports := d.ports()
	tenants := []*client.Client{d.client(t)}
	for _, name := range []string{"b", "c"} {
		tenants = append(tenants, d.namespace(t, ctx, name))
	}
	enqueue := func() {
		t.Helper()
		for _, c := range tenants {
			if _, err := c.Enqueue(ctx, api.EnqueueRequest{Queue: "q"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	enqueue()
	for _, host := range hosts {
		if ports[host] == "" {
			t.Errorf("the banner does not say where %s listens: %q", host, d.Greeting)
		}
		if log, err := os.ReadFile(filepath.Join(dir, host+".log")); err != nil || !strings.Contains(string(log), "level=INFO") {
			t.Errorf("the log of %s: %q, %v", host, log, err)
		}
		if open, err := filepath.Glob(filepath.Join(dir, host, "ns", "*")); err != nil || len(open) != 1 {
			t.Errorf("%s has the namespaces %v, %v", host, open, err)
		}
	}

	killed := hostProcess(t, dir, "host-2")
	if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, ctx, "another process of host-2", func() bool { return hostProcess(t, dir, "host-2") != killed })
	enqueue() // the gateway waits for it

	if err := d.Terminate(t); err != nil {
		t.Fatalf("SIGTERM: %v\n%s", err, d.Log())
	}
	for _, host := range hosts {
		if runs(t, dir, host) {
			t.Errorf("%s still runs", host)
		}
	}
	d = startDev(t, dir, "--hosts", "3")
	if again := d.ports(); len(again) != 4 || again["host"] != ports["host"] || again["host-2"] != ports["host-2"] || again["host-3"] != ports["host-3"] {
		t.Errorf("the ports are %v, they were %v", again, ports)
	}
	tenants = []*client.Client{d.client(t)}
	enqueue()
	if err := d.Terminate(t); err != nil {
		t.Fatalf("SIGTERM: %v\n%s", err, d.Log())
	}
}

// TestHostsEndWithAKilledDev kills a development cloud. Its hosts end by themselves. The next start waits for a host that
// has not ended yet, and says so.
func TestHostsEndWithAKilledDev(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	dir := t.TempDir()
	d := startDev(t, dir, "--hosts", "2")
	process := hostProcess(t, dir, "host-2")
	hostsEnd := func() {
		t.Helper()
		for _, host := range []string{"host", "host-2"} {
			eventually(t, ctx, host+" ends", func() bool { return !runs(t, dir, host) })
		}
	}
	d.Kill(t)
	hostsEnd()
	orphan, err := durable.Lock(filepath.Join(dir, "host-2")) // as if it had not ended
	if err != nil {
		t.Fatal(err)
	}
	next, err := proctest.Spawn(t, proctest.Build(t, "../..", "./cmd/corvo-cloud"), "dev", "--bind", "127.0.0.1:0", "--data-dir", dir, "--hosts", "2")
	if err != nil {
		t.Fatal(err)
	}
	waits := fmt.Sprintf("host=host-2 process=%d", process)
	eventually(t, ctx, "the next start waits", func() bool { return strings.Contains(next.Log(), waits) })
	if err := orphan.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, ctx, "host-2 is started", func() bool { return runs(t, dir, "host-2") && hostProcess(t, dir, "host-2") != process })
	next.Kill(t)
	hostsEnd()
}

// TestDevGetsHostsLaterAndKeepsThem starts a cloud with one host, then with two, and then refuses to leave the second
// one out.
func TestDevGetsHostsLaterAndKeepsThem(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	dir := t.TempDir()
	for _, hosts := range []string{"1", "2"} {
		d := startDev(t, dir, "--hosts", hosts)
		if _, err := d.client(t).Enqueue(ctx, api.EnqueueRequest{Queue: "q"}); err != nil {
			t.Fatal(err)
		}
		if err := d.Terminate(t); err != nil {
			t.Fatalf("SIGTERM: %v\n%s", err, d.Log())
		}
	}
	code, says := ends(t, nil, "dev", "--bind", "127.0.0.1:0", "--data-dir", dir)
	if want := "--hosts is 1, and " + filepath.Join(dir, "host-2") + " has the data of a further host: give --hosts 2;"; code != 2 || !strings.Contains(says, want) {
		t.Errorf("ended with %d: %s", code, says)
	}
}

// namespace creates a namespace and returns a client with a key of it.
func (d dev) namespace(t *testing.T, ctx context.Context, name string) *client.Client {
	t.Helper()
	cloud := d.cloud(t)
	op, err := cloud.CreateNamespace(ctx, "demo", api.CreateNamespaceRequest{Name: name})
	if err == nil {
		op, err = cloud.WaitOperation(ctx, op.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	made, err := cloud.CreateNamespaceKey(ctx, op.Resource.ID, api.CreateCloudKeyRequest{
		CreateKeyRequest: api.CreateKeyRequest{Name: "test", Roles: []string{"admin"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return newClient(t, d.env["CORVO_ENDPOINT"], made.APIKey)
}
