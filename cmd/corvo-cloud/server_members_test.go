package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/cmd/internal/proctest"
	"github.com/corvo/corvo/tenancy"
)

// members is a control plane of several processes. The address of each for clients outlives it.
type members struct {
	t        *testing.T
	dir      string
	endpoint string
	relays   []*proctest.Relay
	all      []*proctest.Process
	root     string // the SHA-256 of the fleet's root
}

func startMembers(t *testing.T, n int, endpoint string) *members {
	t.Helper()
	m := &members{t: t, dir: t.TempDir(), endpoint: endpoint, all: make([]*proctest.Process, n)}
	for i := range n {
		m.relays = append(m.relays, proctest.NewRelay(t))
		m.start(i)
	}
	return m
}

// start starts a process for the first time or again.
func (m *members) start(i int) {
	m.t.Helper()
	m.all[i] = start(m.t, "the control plane listens on", m.args(i)...)
	m.relays[i].To(listening(m.all[i]))
}

// args returns the command line of a process.
func (m *members) args(i int) []string {
	m.t.Helper()
	args := []string{
		"server", "--bind", "127.0.0.1:0", "--data-dir", m.dataDir(i), "--node-id", fmt.Sprintf("control-%d", i+1),
		"--endpoint", m.endpoint, "--advertise", secure(m.relays[i]), "--raft-bind", "127.0.0.1:0",
	}
	if i == 0 {
		args = append(args, "--bootstrap")
	} else {
		args = append(args, "--join", m.peerAddress(0), "--join-token-file", filepath.Join(m.dataDir(0), "controlplane", "join-token"))
	}
	return args
}

// peerAddress returns the address at which a process took connections of the others when it was last started.
func (m *members) peerAddress(i int) string {
	m.t.Helper()
	for _, line := range m.all[i].Greeting {
		if address, ok := strings.CutPrefix(line, "other processes connect to "); ok {
			return address
		}
	}
	m.t.Fatalf("the process does not name its address for the others: %q", m.all[i].Greeting)
	return ""
}

func (m *members) dataDir(i int) string { return filepath.Join(m.dir, fmt.Sprint(i)) }

// urls returns the URLs of all processes as --control-plane takes them.
func (m *members) urls() string {
	var all []string
	for _, r := range m.relays {
		all = append(all, secure(r))
	}
	return strings.Join(all, ",")
}

// operator returns an operator's client of a process.
func (m *members) operator(i int, opts ...client.Option) *client.Cloud {
	m.t.Helper()
	key, err := os.ReadFile(filepath.Join(m.dataDir(0), operatorKeyFile))
	if err != nil {
		m.t.Fatal(err)
	}
	return newCloud(m.t, secure(m.relays[i]), strings.TrimSpace(string(key)), append(opts, trusting(m.t, m.dataDir(0)))...)
}

// register creates a host or gateway and returns the file with its credential.
func (m *members) register(ctx context.Context, kind, name string) (path string) {
	m.t.Helper()
	made, err := m.operator(1, client.WithRetries(5)).CreateHost(ctx, api.CreateHostRequest{Name: name, Kind: kind})
	path, m.root = filepath.Join(m.dir, name), made.FleetRoot
	if err == nil {
		err = os.WriteFile(path, []byte(made.Credential), 0o600)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	return path
}

// checks returns the checks in the readiness of each process; nil if it is not ready.
func (m *members) checks(ctx context.Context) []map[string]string {
	m.t.Helper()
	all := make([]map[string]string, len(m.all))
	trusting := trustingHTTP(m.t, m.dataDir(0))
	for i, relay := range m.relays {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, secure(relay)+"/readyz", nil)
		if err != nil {
			m.t.Fatal(err)
		}
		answer, err := trusting.Do(request)
		if err != nil {
			continue
		}
		var body api.Health
		if answer.StatusCode == http.StatusOK && json.NewDecoder(answer.Body).Decode(&body) == nil {
			all[i] = body.Checks
		}
		answer.Body.Close()
	}
	return all
}

// leader waits until all processes have a vote and one leads, and returns its index.
func (m *members) leader(ctx context.Context) (found int) {
	m.t.Helper()
	eventually(m.t, ctx, "all processes have a vote and one leads", func() bool {
		found = -1
		for i, c := range m.checks(ctx) {
			if c["voters"] != fmt.Sprint(len(m.all)) {
				return false
			}
			if c["role"] == "leader" {
				found = i
			}
		}
		return found >= 0
	})
	return found
}

// acked holds the changes that a control plane has acknowledged.
type acked struct {
	mu         sync.Mutex
	operations []string
	keys       map[string]string // id of the namespace, by id of the key
	newest     string            // text of the newest key
}

func (a *acked) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.keys)
}

// write creates namespaces, and keys for each, until ctx ends. There are many keys to a namespace, because the host
// opens each namespace. A request that fails may or may not have been made; the next one has another name.
func (a *acked) write(ctx context.Context, c *client.Cloud, org string) {
	namespace := ""
	for i := 0; ctx.Err() == nil; i++ {
		if i%20 == 0 || namespace == "" {
			op, err := c.CreateNamespace(ctx, org, api.CreateNamespaceRequest{Name: fmt.Sprintf("n-%d", i)})
			if err != nil {
				continue
			}
			namespace = op.Resource.ID
			a.mu.Lock()
			a.operations = append(a.operations, op.ID)
			a.mu.Unlock()
		}
		key, err := c.CreateNamespaceKey(ctx, namespace, api.CreateCloudKeyRequest{
			CreateKeyRequest: api.CreateKeyRequest{Name: "k", Roles: []string{string(tenancy.Admin)}},
		})
		if err != nil {
			continue
		}
		a.mu.Lock()
		a.keys[key.ID], a.newest = namespace, key.APIKey
		a.mu.Unlock()
	}
}

// TestTheLeaderMayBeKilled kills the leader of a control plane of three processes twice while namespaces are
// created and keys are issued through a gateway. No acknowledged change is lost, all operations end, and gateway
// and host go on with the other processes.
func TestTheLeaderMayBeKilled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	door, far := proctest.NewRelay(t), proctest.NewRelay(t)
	m := startMembers(t, 3, door.URL)
	hostCredential, gatewayCredential := m.register(ctx, "host", "host"), m.register(ctx, "gateway", "gateway")
	host := start(t, "the host listens on", "host", "--bind", "127.0.0.1:0", "--raft-bind", "127.0.0.1:0", "--advertise", secure(far), "--data-dir", filepath.Join(m.dir, "h"),
		"--control-plane", m.urls(), "--fleet-root", m.root, "--credential-file", hostCredential)
	far.To(listening(host))
	gateway := start(t, "the gateway listens on", "gateway", "--bind", "127.0.0.1:0", "--data-dir", filepath.Join(m.dir, "g"),
		"--control-plane", m.urls(), "--fleet-root", m.root, "--credential-file", gatewayCredential)
	door.To(listening(gateway))

	key, err := os.ReadFile(filepath.Join(m.dataDir(0), operatorKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	through := newCloud(t, door.URL, strings.TrimSpace(string(key)), client.WithRetries(2))
	org, err := through.CreateOrg(ctx, api.CreateOrgRequest{Name: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	a := &acked{keys: map[string]string{}}
	writing, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() { a.write(writing, through, org.ID) })
	for range 2 {
		i := m.leader(ctx)
		before := a.count()
		eventually(t, ctx, "changes before the kill", func() bool { return a.count() > before+2 })
		m.all[i].Kill(t)
		m.relays[i].To("")
		before = a.count()
		eventually(t, ctx, "changes without the process", func() bool { return a.count() > before+2 })
		m.start(i)
	}
	stop()
	work.Wait()
	t.Logf("%d namespaces and %d keys were acknowledged", len(a.operations), len(a.keys))

	for i := range m.all {
		c := m.operator(i, client.WithRetries(5))
		known := map[string][]api.Key{}
		for id, ns := range a.keys {
			if known[ns] == nil {
				if known[ns], err = c.NamespaceKeys(ctx, ns); err != nil {
					t.Fatalf("the keys of %s at process %d: %v", ns, i+1, err)
				}
			}
			if !slices.ContainsFunc(known[ns], func(k api.Key) bool { return k.ID == id }) {
				t.Errorf("process %d does not have the acknowledged key %s of %s", i+1, id, ns)
			}
		}
	}
	// The newest key reached gateway and host by a stream of another process than the first.
	tenant := newClient(t, door.URL, a.newest)
	eventually(t, ctx, "the newest key opens its namespace", func() bool {
		_, err := tenant.Enqueue(ctx, api.EnqueueRequest{Queue: "q"})
		return err == nil
	})
	for _, id := range a.operations {
		if o, err := through.WaitOperation(ctx, id); err != nil || o.Status != api.OperationDone {
			t.Errorf("an acknowledged operation: %+v, %v", o, err)
		}
	}
}
