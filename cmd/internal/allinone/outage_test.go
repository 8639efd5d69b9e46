package allinone

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/api/fleet/fleettest"
	"github.com/corvo/corvo/cmd/internal/proctest"
	"github.com/corvo/corvo/controlplane"
	"github.com/corvo/corvo/controlplane/gateway"
	"github.com/corvo/corvo/dataplane"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/cluster"
	"github.com/corvo/corvo/tenancy/keyring"
)

// quiet is the logger of parts whose log no test reads.
var quiet = slog.New(slog.DiscardHandler)

// controller is a process of a control plane. Its addresses outlive it.
type controller struct {
	config controlplane.Config
	of     cluster.Config
	raft   *proctest.Relay // for the other processes
	http   *proctest.Relay // for hosts and gateways
	plane  *controlplane.Plane
	front  *http.Server
}

// outage is a fleet of three control-plane processes, four hosts and a gateway, whose clock a test puts ahead.
type outage struct {
	t           *testing.T
	clock       fleettest.Clock
	controllers []*controller
	operator    string
	hosts       []*member
	gateway     gateway.Config
	root        string // of the fleet
	endpoint    string // of the gateway that runs
	stopGateway func()
}

func newOutage(t *testing.T) *outage {
	t.Helper()
	o := &outage{t: t}
	o.operator = newSecret(t, keyring.CloudOperator)
	for i := range 3 {
		c := &controller{raft: proctest.NewRelay(t), http: proctest.NewRelay(t)}
		c.config = controlplane.Config{
			DataDir: t.TempDir(), NodeID: fmt.Sprintf("control-%d", i+1), Endpoint: "http://gateway.test", Version: "test",
			Now: o.clock.Now, Logger: quiet,
			Engine: engine.Tuning{Autopilot: &engine.Autopilot{StableAfter: 10 * time.Millisecond}},
		}
		c.of = cluster.Config{
			Token: strings.Repeat("t", cluster.MinToken), Bootstrap: i == 0, Advertise: strings.TrimPrefix(c.raft.URL, "http://"), Now: o.clock.Now,
		}
		if i > 0 {
			c.of.Join = []string{o.controllers[0].of.Advertise}
		}
		o.controllers = append(o.controllers, c)
		t.Cleanup(func() { o.closeController(c) })
		o.openController(c)
	}
	o.root = o.controllers[0].plane.FleetRoot()
	for i := range 4 {
		h := &member{t: t, id: fmt.Sprintf("host-%d", i+1), root: o.root}
		h.config = dataplane.HostConfig{ControlPlane: o.urls(), Credential: o.register(h.id, keyring.Host), Now: o.clock.Now, MaxDiskPercent: maxDiskPercent}
		h.start()
		o.hosts = append(o.hosts, h)
	}
	o.gateway = gateway.Config{
		ControlPlane: o.urls(), Credential: o.register("gateway", keyring.Gateway), Version: "test",
		DataDir: filepath.Join(t.TempDir(), "gateway"),
		Now:     o.clock.Now, Logger: quiet, HostWait: testTimeout,
	}
	t.Cleanup(func() { o.stopGateway() })
	o.openGateway()
	return o
}

func newSecret(t *testing.T, kind keyring.Kind) string {
	t.Helper()
	text, _, _, err := keyring.New(rand.Reader, kind)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// openController starts a process of the control plane. It may be called from several goroutines, because a majority
// of the processes must be up before the first of them is open.
func (o *outage) openController(c *controller) {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	held, err := certificate.Open(certificate.Config{
		Path: filepath.Join(c.config.DataDir, certificate.FileName), Kind: certificate.ControlPlane, Now: o.clock.Now, Logger: quiet,
	})
	if err != nil {
		o.t.Error(err)
		return
	}
	of := c.of
	c.config.Cluster, c.config.Certificate = &of, held
	if of.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		o.t.Error(err)
		return
	}
	c.raft.To(of.Listener.Addr().String())
	if c.plane, err = controlplane.Open(ctx, c.config); err != nil {
		o.t.Errorf("open %s: %v", c.config.NodeID, err)
		return
	}
	if err := c.plane.EnsureOperator(ctx, o.operator); err != nil {
		o.t.Error(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		o.t.Error(err)
		return
	}
	c.front = &http.Server{
		Handler: c.plane.Handler(), TLSConfig: fleet.ControlPlaneServer(held), ErrorLog: slog.NewLogLogger(quiet.Handler(), slog.LevelDebug),
	}
	go c.front.ServeTLS(listener, "", "") // returns when the server is closed
	c.http.To(listener.Addr().String())
}

// closeController ends a process of the control plane. It may be called again.
func (o *outage) closeController(c *controller) {
	c.http.To("")
	if c.front != nil {
		c.front.Close()
	}
	if c.plane != nil {
		if err := c.plane.Close(context.Background()); err != nil {
			o.t.Errorf("close %s: %v", c.config.NodeID, err)
		}
	}
	c.raft.To("")
	c.front, c.plane = nil, nil
}

// each calls f for all processes of the control plane at once.
func (o *outage) each(f func(*controller)) {
	var all sync.WaitGroup
	for _, c := range o.controllers {
		all.Go(func() { f(c) })
	}
	all.Wait()
	if o.t.Failed() {
		o.t.FailNow()
	}
}

// urls returns the URLs of the control plane as hosts and gateways take them.
func (o *outage) urls() string {
	var all []string
	for _, c := range o.controllers {
		all = append(all, "https"+strings.TrimPrefix(c.http.URL, "http"))
	}
	return strings.Join(all, ",")
}

// register creates a host or gateway and returns its credential.
func (o *outage) register(name string, kind keyring.Kind) (credential string) {
	o.t.Helper()
	credential = newSecret(o.t, kind)
	if err := o.controllers[0].plane.EnsureHost(o.t.Context(), name, kind, "", credential); err != nil {
		o.t.Fatal(err)
	}
	return credential
}

// cloud returns an operator's client, whose requests go to the first process that does not refuse them for want of
// leadership.
func (o *outage) cloud() *client.Cloud {
	o.t.Helper()
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			o.t.Error(err)
		}
		answer := httptest.NewRecorder()
		for _, c := range o.controllers {
			answer = httptest.NewRecorder()
			r.Body = io.NopCloser(bytes.NewReader(body))
			if c.plane.Handler().ServeHTTP(answer, r); answer.Code != http.StatusServiceUnavailable {
				break
			}
		}
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes()) // an error means that the client is gone
	}))
	o.t.Cleanup(front.Close)
	c, err := client.NewCloud(front.URL, o.operator, client.WithRetries(5), client.WithTimeout(testTimeout))
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(c.Close)
	return c
}

// openGateway starts the gateway on its directory.
func (o *outage) openGateway() {
	o.t.Helper()
	var err error
	o.gateway.Certificate, err = certificate.Open(certificate.Config{
		Path: filepath.Join(filepath.Dir(o.gateway.DataDir), certificate.FileName), Kind: certificate.Gateway, FleetRoot: o.root,
		Now: o.clock.Now, Logger: quiet,
	})
	if err != nil {
		o.t.Fatal(err)
	}
	g, err := gateway.New(o.gateway)
	if err != nil {
		o.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	front := httptest.NewServer(g)
	o.endpoint = front.URL
	o.stopGateway = func() {
		g.Drain()
		front.Close()
		cancel()
		if err := <-ended; err != nil {
			o.t.Error(err)
		}
		o.stopGateway = func() {}
	}
}

// place creates a namespace with three replicas and returns its id and a key of it.
func (o *outage) place(c *client.Cloud) (namespace, key string) {
	o.t.Helper()
	ctx := o.t.Context()
	org, err := c.CreateOrg(ctx, api.CreateOrgRequest{Name: "acme"})
	if err != nil {
		o.t.Fatal(err)
	}
	operation, err := c.CreateNamespace(ctx, org.ID, api.CreateNamespaceRequest{Name: "a", Spec: &api.NewNamespaceSpec{Replicas: new(3)}})
	if err == nil {
		_, err = c.WaitOperation(ctx, operation.ID)
	}
	if err != nil {
		o.t.Fatal(err)
	}
	of := api.CreateKeyRequest{Name: "test", Roles: []string{"admin"}}
	made, err := c.CreateNamespaceKey(ctx, operation.Resource.ID, api.CreateCloudKeyRequest{CreateKeyRequest: of})
	if err != nil {
		o.t.Fatal(err)
	}
	return operation.Resource.ID, made.APIKey
}

// ask sends a tenant's request to the gateway.
func (o *outage) ask(method, path, key, body string) (status int, answer string) {
	o.t.Helper()
	request, err := http.NewRequestWithContext(o.t.Context(), method, o.endpoint+path, strings.NewReader(body))
	if err != nil {
		o.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

// enqueue creates jobs. The client repeats no request.
func (o *outage) enqueue(key string, n int) (ids []string) {
	o.t.Helper()
	for range n {
		var made api.EnqueueResponse
		status, answer := o.ask("POST", "/api/v1/enqueue", key, `{"queue":"q"}`)
		if err := json.Unmarshal([]byte(answer), &made); status != http.StatusCreated || err != nil {
			o.t.Fatalf("a write: %d %s %v", status, answer, err)
		}
		ids = append(ids, made.JobID)
	}
	return ids
}

// restart restarts a host, and enqueues jobs while the host is away and afterwards.
func (o *outage) restart(h *member, key string) (ids []string) {
	o.t.Helper()
	h.close()
	ids = o.enqueue(key, 3)
	h.open()
	return append(ids, o.enqueue(key, 3)...)
}

// ready checks the readiness of all hosts and of the gateway.
func (o *outage) ready(when string, status int, says string) {
	o.t.Helper()
	for _, h := range o.hosts {
		if got, body := fleettest.Ask(o.t, h.host.Handler(), "/readyz"); got != status || !strings.Contains(body, says) {
			o.t.Errorf("%s %s: %d %s", when, h.id, got, body)
		}
	}
	if got, body := o.ask("GET", "/readyz", "", ""); got != status || status == http.StatusOK && !strings.Contains(body, says) {
		o.t.Errorf("%s the gateway: %d %s", when, got, body)
	}
}

// awaitReady waits until all hosts and the gateway are ready.
func (o *outage) awaitReady() {
	o.t.Helper()
	for _, h := range o.hosts {
		fleettest.Eventually(o.t, h.id+" is ready", func() bool {
			status, _ := fleettest.Ask(o.t, h.host.Handler(), "/readyz")
			return status == http.StatusOK
		})
	}
	fleettest.Eventually(o.t, "the gateway is ready", func() bool {
		status, _ := o.ask("GET", "/readyz", "", "")
		return status == http.StatusOK
	})
}

// TestAllControlPlaneProcessesOffForEightDays takes the control plane away from a fleet. For 6 days tenants notice
// nothing, while hosts and the gateway restart and groups elect new leaders. After 8 days the documents and certificates
// have expired: tenants are refused, and a host that restarts reaches no other. When the control plane is back, the
// fleet heals by itself: no job is lost, and the long silence has moved no member.
func TestAllControlPlaneProcessesOffForEightDays(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	cloud := o.cloud()
	namespace, key := o.place(cloud)
	fleettest.Eventually(t, "the gateway has the key", func() bool {
		status, _ := o.ask("GET", "/api/v1/queues", key, "")
		return status == http.StatusOK
	})
	ids := o.enqueue(key, 5)
	before, err := cloud.Cluster(t.Context(), namespace)
	if err != nil {
		t.Fatal(err)
	}

	o.each(o.closeController)
	for day := range 6 {
		o.clock.Forward(24 * time.Hour)
		ids = append(ids, o.enqueue(key, 3)...)
		switch day + 1 {
		case 3:
			o.ready("after 3 days", http.StatusOK, `"certificate":"ok"`)
		case 5:
			o.ready("after 5 days", http.StatusOK, `"certificate":"the certificate expires at `)
			o.stopGateway()
			o.openGateway()
			o.awaitReady()
		case 6:
			for _, h := range o.hosts[:3] { // at least two members; the last host runs all the time
				ids = append(ids, o.restart(h, key)...)
			}
		}
	}

	o.clock.Forward(48 * time.Hour)
	o.ready("after 8 days", http.StatusServiceUnavailable, "was valid until")
	status, answer := o.ask("POST", "/api/v1/enqueue", key, `{"queue":"q"}`)
	if status != http.StatusServiceUnavailable || !strings.Contains(answer, "too old") {
		t.Errorf("after 8 days: %d %s", status, answer)
	}
	for _, h := range o.hosts[:3] {
		h.close()
		h.open()
	}
	o.stopGateway()
	o.openGateway()

	o.each(o.openController)
	o.awaitReady()
	ids = append(ids, o.enqueue(key, 5)...)
	for _, id := range ids {
		if status, answer := o.ask("GET", "/api/v1/jobs/"+id+"?consistency=strong", key, ""); status != http.StatusOK {
			t.Errorf("job %s: %d %s", id, status, answer)
		}
	}
	fleettest.Eventually(t, "all members of the namespace are reported as before", func() bool {
		after, err := cloud.Cluster(t.Context(), namespace)
		if err == nil && after.Status.ObservedGeneration != before.Status.ObservedGeneration {
			t.Fatalf("the outage changed the members: %+v, before %+v", after.Status, before.Status)
		}
		same := func(a, b api.CloudClusterMember) bool {
			return a.Store == b.Store && a.HostState == b.HostState && a.State == b.State
		}
		return err == nil && slices.EqualFunc(after.Status.Members, before.Status.Members, same) &&
			slices.Equal(after.Status.Groups[0].Voters, before.Status.Groups[0].Voters)
	})
	o.ready("after the outage", http.StatusOK, `"certificate":"ok"`)
}
