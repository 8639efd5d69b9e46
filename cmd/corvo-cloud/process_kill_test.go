package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/cmd/internal/proctest"
)

// parts is a cloud whose control plane, gateway and host are separate processes, each behind an address that
// outlives it.
type parts struct {
	t                                 *testing.T
	dir                               string
	control, gatewayRelay, far        *proctest.Relay // control and far carry TLS
	server, gateway, host             *proctest.Process
	hostCredential, gatewayCredential string
	gatewayDir                        string
	root                              string // its SHA-256
	operator                          *client.Cloud
}

func startParts(t *testing.T) *parts {
	t.Helper()
	p := newParts(t)
	p.startHost()
	p.startGateway()
	return p
}

// newParts starts the control plane and registers a host and a gateway.
func newParts(t *testing.T) *parts {
	t.Helper()
	p := &parts{t: t, dir: t.TempDir(), control: proctest.NewRelay(t), gatewayRelay: proctest.NewRelay(t), far: proctest.NewRelay(t)}
	p.gatewayDir = filepath.Join(p.dir, "gateway")
	p.startServer()
	key, err := os.ReadFile(filepath.Join(p.dir, "server", operatorKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	p.operator = newCloud(t, secure(p.control), strings.TrimSpace(string(key)), client.WithRetries(5), trusting(t, filepath.Join(p.dir, "server")))
	p.hostCredential, p.gatewayCredential = p.register("host", "host-1"), p.register("gateway", "gateway-1")
	return p
}

// register creates a credential, as an operator does, and writes it to a file.
func (p *parts) register(kind, name string) string {
	p.t.Helper()
	made, err := p.operator.CreateHost(p.t.Context(), api.CreateHostRequest{Name: name, Kind: kind})
	if err != nil {
		p.t.Fatal(err)
	}
	p.root = made.FleetRoot
	path := filepath.Join(p.dir, name+".credential")
	if err := os.WriteFile(path, []byte(made.Credential), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return path
}

// listening returns the address in a greeting's last line.
func listening(p *proctest.Process) string {
	_, address, _ := strings.Cut(p.Greeting[len(p.Greeting)-1], "://")
	return address
}

// secure returns the URL of a relay that carries TLS.
func secure(r *proctest.Relay) string { return "https" + strings.TrimPrefix(r.URL, "http") }

// trusting makes a client trust the roots in the data directory of a control plane.
func trusting(t *testing.T, dir string) client.Option {
	t.Helper()
	return client.WithHTTPClient(trustingHTTP(t, dir))
}

func trustingHTTP(t *testing.T, dir string) *http.Client {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, rootFile))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		t.Fatalf("no certificate in %s", text)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (p *parts) startServer() {
	p.t.Helper()
	p.server = start(p.t, "the control plane listens on", "server", "--bind", "127.0.0.1:0",
		"--data-dir", filepath.Join(p.dir, "server"), "--endpoint", p.gatewayRelay.URL)
	p.control.To(listening(p.server))
}

func (p *parts) startHost() {
	p.t.Helper()
	p.host = start(p.t, "the host listens on", "host", "--bind", "127.0.0.1:0", "--raft-bind", "127.0.0.1:0", "--advertise", secure(p.far), "--fleet-root", p.root,
		"--data-dir", filepath.Join(p.dir, "host"), "--control-plane", secure(p.control), "--credential-file", p.hostCredential)
	p.far.To(listening(p.host))
}

func (p *parts) startGateway(flags ...string) {
	p.t.Helper()
	p.gateway = start(p.t, "the gateway listens on", append([]string{"gateway", "--bind", "127.0.0.1:0",
		"--control-plane", secure(p.control), "--fleet-root", p.root, "--credential-file", p.gatewayCredential, "--data-dir", p.gatewayDir}, flags...)...)
	p.gatewayRelay.To(listening(p.gateway))
}

// tenant is a namespace and a client for it.
type tenant struct {
	*client.Client
	id, key string
}

func (p *parts) newTenant(ctx context.Context, org, name string) tenant {
	p.t.Helper()
	op, err := p.operator.CreateNamespace(ctx, org, api.CreateNamespaceRequest{Name: name})
	if err == nil {
		op, err = p.operator.WaitOperation(ctx, op.ID)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	made := p.newKey(ctx, op.Resource.ID, "test", "admin")
	return tenant{newClient(p.t, p.gatewayRelay.URL, made.APIKey, client.WithRetries(8), client.WithKeyedWrites()), op.Resource.ID, made.ID}
}

// newKey creates a key of a namespace with a role.
func (p *parts) newKey(ctx context.Context, namespace, name, role string) api.CloudKey {
	p.t.Helper()
	made, err := p.operator.CreateNamespaceKey(ctx, namespace, api.CreateCloudKeyRequest{
		CreateKeyRequest: api.CreateKeyRequest{Name: name, Roles: []string{role}},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return made
}

// TestAnyPartMayBeKilled kills each part of a cloud while tenants work. Every acknowledged job survives, the
// other parts serve without the control plane, the control plane finishes its interrupted operations, and the
// bill holds the reported usage once, to the nano-dollar.
func TestAnyPartMayBeKilled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	p := startParts(t)
	org, err := p.operator.CreateOrg(ctx, api.CreateOrgRequest{Name: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	a := p.newTenant(ctx, org.ID, "a")
	work := func(n int) { // n jobs of 123 nano-dollars each
		t.Helper()
		for range n {
			p.runJob(ctx, a)
		}
	}
	work(3)

	// Without the control plane, tenants are still served, even by parts that start now.
	op, err := p.operator.CreateNamespace(ctx, org.ID, api.CreateNamespaceRequest{Name: "b"})
	if err != nil {
		t.Fatal(err)
	}
	p.server.Kill(t)
	work(2)
	p.host.Kill(t)
	p.startHost()
	work(2)
	p.gateway.Kill(t)
	p.startGateway()
	work(2)
	p.startServer()
	if op, err = p.operator.WaitOperation(ctx, op.ID); err != nil || op.Status != api.OperationDone {
		t.Fatalf("the create that was under way: %+v, %v", op, err)
	}

	p.gateway.Kill(t)
	p.startGateway()
	work(2)
	p.host.Kill(t)
	p.server.Kill(t)
	p.startServer()
	p.startHost()
	work(1)

	const want = 12 * 123 // nano-dollars
	eventually(t, ctx, "the exact usage in the bill", func() bool {
		report, err := p.operator.Usage(ctx, org.ID, client.UsageQuery{GroupBy: "model"})
		if err != nil {
			return false
		}
		if report.Totals.CostUSD.Nano() > want {
			t.Fatalf("the bill says %v, 0.000001476 was reported", report.Totals.CostUSD)
		}
		return report.Totals.CostUSD.Nano() == want && report.Totals.InputTokens.Int64() == 12*7 && report.Totals.Reports.Int64() == 12
	})

	// The namespace can be deleted with all its data.
	if op, err = p.operator.DeleteNamespace(ctx, a.id, 0); err == nil {
		op, err = p.operator.WaitOperation(ctx, op.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(p.dir, "host", "ns", a.id)); len(left) > 0 {
		t.Errorf("left of a deleted namespace: %v", left)
	}
	if _, err := a.Queues(ctx, client.Read{}); api.CodeOf(err) != api.Unauthorized {
		t.Errorf("its key: %v", err)
	}
}

// runJob takes one job through its life and reports usage worth 123 nano-dollars.
func (p *parts) runJob(ctx context.Context, a tenant) {
	p.t.Helper()
	must := func(err error) {
		p.t.Helper()
		if err != nil {
			p.t.Fatalf("%v\nhost: %s\ngateway: %s", err, p.host.Log(), p.gateway.Log())
		}
	}
	made, err := a.Enqueue(ctx, api.EnqueueRequest{Queue: "q"})
	must(err)
	var got *api.FetchedJob
	for got == nil {
		got, err = a.Fetch(ctx, api.FetchRequest{Queues: []string{"q"}, WorkerID: "w"})
		must(err)
	}
	if got.JobID != made.JobID {
		p.t.Fatalf("fetched %s, enqueued %s", got.JobID, made.JobID)
	}
	must(a.Ack(ctx, got.JobID, api.AckRequest{LeaseToken: got.LeaseToken, Usage: &api.ReportedUsage{
		InputTokens: 7, Model: "m-1", Provider: "p", CostUSD: new(money.Reported(123)),
	}}))
}
