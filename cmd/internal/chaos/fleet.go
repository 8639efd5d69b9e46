package chaos

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// Sizes of a Fleet.
const (
	controls = 3
	gateways = 2
	hosts    = 4
)

const controlPort = 8081

// Fleet is a cloud on a Network: a control plane of three processes, two gateways and four hosts. Clients reach the
// gateways; each of them serves every namespace.
type Fleet struct {
	processes
	Namespace string // the id of a namespace with three replicas
	Org       string // its organisation

	dir       string
	root      string          // the SHA-256 of the fleet's root
	operators []*client.Cloud // an operator's client of each process of the control plane
	requests  requests        // of the namespace
	stranger  *stranger       // nil before StartStranger
}

// StartFleet starts all processes and creates a namespace with three replicas.
func StartFleet(t testing.TB, binary string) *Fleet {
	t.Helper()
	dir := t.TempDir()
	f := &Fleet{processes: newProcesses(t, binary, dir, controls+gateways+hosts), dir: dir}
	for i := range controls {
		f.StartNode(t, i)
		f.await(t, "operator's key", func(context.Context) bool { return f.addOperator(t, i) })
	}
	org := do(t, f, "organisation", func(ctx context.Context) (api.Org, error) {
		return f.Operator().CreateOrg(ctx, api.CreateOrgRequest{Name: "acme"})
	})
	f.Org = org.ID
	for i := controls; i < len(f.nodes); i++ {
		f.register(t, i)
		f.StartNode(t, i)
	}
	f.Namespace, _ = f.NewNamespace(t, "orders", 3)
	key := f.newKey(t, f.Namespace)
	for i := range gateways {
		f.requests.by[i] = &gatewayRequests{next: newTransport()}
		f.nodes[controls+i].client = newClient(t, f.gatewayURL(i), key, f.requests.by[i])
		f.await(t, "gateway that serves the namespace", func(ctx context.Context) bool {
			_, err := f.Client(i).Queues(ctx, client.Read{})
			return err == nil
		})
	}
	return f
}

// NewNamespace creates a namespace, waits until it is active, and returns its id and a key.
func (f *Fleet) NewNamespace(t testing.TB, name string, replicas int) (id, key string) {
	t.Helper()
	made := do(t, f, "namespace", func(ctx context.Context) (api.Operation, error) {
		return f.Operator().CreateNamespace(ctx, f.Org, api.CreateNamespaceRequest{Name: name, Spec: &api.NewNamespaceSpec{Replicas: &replicas}})
	})
	f.await(t, "active namespace "+name, func(ctx context.Context) bool {
		op, err := f.Operator().Operation(ctx, made.ID)
		return err == nil && op.Status == api.OperationDone
	})
	return made.Resource.ID, f.newKey(t, made.Resource.ID)
}

func (f *Fleet) newKey(t testing.TB, namespace string) string {
	t.Helper()
	return do(t, f, "key", func(ctx context.Context) (api.CloudKey, error) {
		return f.Operator().CreateNamespaceKey(ctx, namespace, api.CreateCloudKeyRequest{CreateKeyRequest: api.CreateKeyRequest{Name: "load", Roles: []string{"admin"}}})
	}).APIKey
}

// addOperator adds an operator's client of a process of the control plane. It returns false while the first process has
// not written the operator's key and the fleet's root.
func (f *Fleet) addOperator(t testing.TB, i int) bool {
	t.Helper()
	key, err := os.ReadFile(filepath.Join(f.nodes[0].dir, "operator.key"))
	if err != nil {
		return false
	}
	text, err := os.ReadFile(filepath.Join(f.nodes[0].dir, "fleet-root.pem"))
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(text) {
		return false
	}
	trusting := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	c, err := client.NewCloud(f.controlURL(i), strings.TrimSpace(string(key)), client.WithRetries(0), client.WithTimeout(requestLimit), client.WithHTTPClient(trusting))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	f.operators = append(f.operators, c)
	return true
}

// Operator returns an operator's client of a random process of the control plane that is up.
func (f *Fleet) Operator() *client.Cloud {
	for _, i := range rand.Perm(len(f.operators)) {
		if f.Up(i) {
			return f.operators[i]
		}
	}
	return f.operators[0]
}

// register creates the credential of a host or gateway.
func (f *Fleet) register(t testing.TB, i int) {
	t.Helper()
	kind := "host"
	if i < controls+gateways {
		kind = "gateway"
	}
	made := do(t, f, kind, func(ctx context.Context) (api.CreatedHost, error) {
		return f.Operator().CreateHost(ctx, api.CreateHostRequest{Name: nodeName(i), Kind: kind})
	})
	f.root = made.FleetRoot
	if err := os.WriteFile(f.credential(i), []byte(made.Credential), 0o600); err != nil {
		t.Fatal(err)
	}
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

func (f *Fleet) credential(i int) string { return filepath.Join(f.dir, nodeName(i)+".credential") }

func (f *Fleet) controlURL(i int) string {
	return fmt.Sprintf("https://%s:%d", f.Net.Addr(i), controlPort)
}

func (f *Fleet) gatewayURL(i int) string {
	return fmt.Sprintf("http://%s:%d", f.Net.Addr(controls+i), httpPort)
}

// StartNode starts a process that is down. It waits until a host has opened its namespaces, because the control plane
// still has the host's reports of before, and not until another process serves.
func (f *Fleet) StartNode(t testing.TB, i int) {
	t.Helper()
	at, dir := f.Net.Addr(i), f.nodes[i].dir
	var urls []string
	for c := range controls {
		urls = append(urls, f.controlURL(c))
	}
	joining := []string{"--data-dir", dir, "--control-plane", strings.Join(urls, ","), "--credential-file", f.credential(i), "--fleet-root", f.root}
	var args []string
	switch {
	case i < controls:
		args = []string{
			"server", "--node-id", nodeName(i), "--data-dir", dir, "--bind", fmt.Sprintf("%s:%d", at, controlPort), "--advertise", f.controlURL(i),
			"--raft-bind", fmt.Sprintf("%s:%d", at, raftPort), "--endpoint", f.gatewayURL(0),
		}
		if i == 0 {
			args = append(args, "--bootstrap")
		} else {
			args = append(args, "--join", fmt.Sprintf("%s:%d", f.Net.Addr(0), raftPort), "--join-token-file", filepath.Join(f.nodes[0].dir, "controlplane", "join-token"))
		}
	case i < controls+gateways:
		args = append([]string{"gateway", "--bind", fmt.Sprintf("%s:%d", at, httpPort)}, joining...)
	default:
		args = append([]string{
			"host", "--bind", fmt.Sprintf("%s:%d", at, httpPort), "--advertise", fmt.Sprintf("https://%s:%d", at, httpPort),
			"--raft-bind", fmt.Sprintf("%s:%d", at, raftPort),
		}, joining...)
		f.start(t, i, "the host listens on", append(args, "--log-level", "warn")...)
		return
	}
	f.spawn(t, i, append(args, "--log-level", "warn")...)
}

// Size returns the number of gateways.
func (f *Fleet) Size() int { return gateways }

// Client returns the client of a gateway.
func (f *Fleet) Client(gateway int) *client.Client { return f.nodes[controls+gateway].client }

// await polls a condition of the fleet.
func (f *Fleet) await(t testing.TB, what string, holds func(ctx context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), awaitTimeout)
	defer cancel()
	if poll(ctx, holds) {
		return
	}
	for i := range f.nodes {
		t.Logf("node %d: up %v\n%s", i, f.Up(i), tail(f.Log(i)))
	}
	if len(f.operators) > 0 && f.Namespace != "" {
		ctx, cancel := context.WithTimeout(context.Background(), requestLimit)
		defer cancel()
		c, err := f.Operator().Cluster(ctx, f.Namespace)
		t.Logf("the namespace: %+v, %v", c.Status, err)
	}
	t.Fatalf("no %s after %v", what, awaitTimeout)
}

// do repeats a request of an operator until it is done. The request must not have been refused.
func do[R any](t testing.TB, f *Fleet, what string, request func(ctx context.Context) (R, error)) (answer R) {
	t.Helper()
	f.await(t, what, func(ctx context.Context) bool {
		var err error
		answer, err = request(ctx)
		if err != nil && refused(err) {
			t.Fatalf("%s: %v", what, err)
		}
		return err == nil
	})
	return answer
}
