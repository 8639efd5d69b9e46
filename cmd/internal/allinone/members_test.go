package allinone

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/api/fleet/fleettest"
	"github.com/corvo/corvo/controlplane/gateway"
	"github.com/corvo/corvo/dataplane"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// member is a host of the cloud that is a member of the test's namespace. It keeps its addresses when it is opened again.
type member struct {
	t         *testing.T
	config    dataplane.HostConfig
	root      string // of the fleet
	id, store string
	http      string // host:port
	host      *dataplane.CloudHost
	front     *http.Server
}

// newMember opens a host with a certificate and waits until it has joined.
func newMember(t *testing.T, plane *fleettest.ControlPlane, id string) *member {
	t.Helper()
	m := &member{t: t, id: id, root: plane.Root()}
	m.config = dataplane.HostConfig{ControlPlane: plane.URL, Credential: plane.Register(id, keyring.Host)}
	m.start()
	fleettest.Eventually(t, id+" has joined", func() bool { return plane.Raft(id) == m.config.RaftAddress })
	return m
}

// start makes the data directory of the host and opens the host until the test ends.
func (m *member) start() {
	m.t.Helper()
	m.http, m.config.RaftAddress = "127.0.0.1:0", "127.0.0.1:0"
	m.config.DataDir, m.config.Version = filepath.Join(m.t.TempDir(), "data"), "test"
	m.config.Logger = cmp.Or(m.config.Logger, slog.New(slog.DiscardHandler))
	err := os.MkdirAll(m.config.DataDir, 0o700)
	if err == nil {
		m.store, err = host.OpenStore(m.config.DataDir, rand.Reader, 1)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(m.close)
	m.open()
}

func (m *member) open() {
	m.t.Helper()
	var err error
	if m.config.Certificate, err = certificate.Open(certificate.Config{
		Path: filepath.Join(m.config.DataDir, certificate.FileName), Kind: certificate.Host, Store: m.store,
		FleetRoot: m.root, Now: m.config.Now, Logger: m.config.Logger,
	}); err != nil {
		m.t.Fatal(err)
	}
	listen := func(address *string) net.Listener {
		l, err := net.Listen("tcp", *address)
		if err != nil {
			m.t.Fatal(err)
		}
		*address = l.Addr().String()
		return l
	}
	public := listen(&m.http)
	m.config.Address, m.config.Raft = "https://"+m.http, listen(&m.config.RaftAddress)
	if m.host, err = dataplane.OpenHost(context.Background(), m.config); err != nil {
		m.t.Fatal(err)
	}
	m.front = &http.Server{
		Handler: m.host.Handler(), TLSConfig: fleet.HostServer(m.config.Certificate), ErrorLog: slog.NewLogLogger(m.config.Logger.Handler(), slog.LevelDebug),
	}
	go m.front.ServeTLS(public, "", "") // returns when the server is shut down
}

// close shuts the host down as its process does. It may be called again.
func (m *member) close() {
	if m.host == nil {
		return
	}
	m.host.Drain()
	if err := errors.Join(m.front.Shutdown(context.Background()), m.host.Close(context.Background())); err != nil {
		m.t.Errorf("close %s: %v", m.id, err)
	}
	m.host = nil
}

// leads waits until one of the members has reported that it leads all of them.
func leads(t *testing.T, plane *fleettest.ControlPlane, members []*member) {
	t.Helper()
	fleettest.Eventually(t, "a host leads the group of all", func() bool {
		for _, r := range plane.Reports() {
			for _, c := range r.Cells {
				for _, g := range c.Groups {
					if g.Role == fleet.Leading && len(g.Voters) == len(members) && len(g.Learners) == 0 {
						return true
					}
				}
			}
		}
		return false
	})
}

// openMembersGateway runs a gateway with a certificate and returns its URL.
func openMembersGateway(t *testing.T, plane *fleettest.ControlPlane) string {
	t.Helper()
	held, err := certificate.Open(certificate.Config{Path: filepath.Join(t.TempDir(), certificate.FileName), Kind: certificate.Gateway, FleetRoot: plane.Root(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(gateway.Config{
		ControlPlane: plane.URL, Credential: plane.Register("gw_1", keyring.Gateway), Version: "test", Certificate: held,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), HostWait: testTimeout,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	front := httptest.NewServer(g)
	t.Cleanup(func() {
		g.Drain()
		front.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	fleettest.Eventually(t, "the gateway is ready", func() bool { return g.Ready() == nil })
	return front.URL
}

// share places a namespace on all members, as a control plane does, and returns a key of it.
func share(t *testing.T, plane *fleettest.ControlPlane, members []*member) (key string) {
	t.Helper()
	key, id, hash, err := keyring.New(rand.Reader, keyring.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	d := fleet.Doc{
		Namespace: "ns_a", Name: "a", Org: "org_1", Epoch: 1, Generation: 1, Desired: fleet.Open, Incarnations: []entry.Incarnation{{1}},
		Keys: []fleet.Key{{ID: id, Name: "test", Roles: []string{string(tenancy.Admin)}, Hash: hash[:], CreatedNs: 1}},
	}
	for _, founder := range []string{fleet.Found, fleet.Join} {
		d.Members, d.Ready = nil, founder == fleet.Join
		for _, m := range members {
			d.Members = append(d.Members, fleet.GroupMember{Store: m.store, Host: m.id, URL: m.config.Address, Raft: m.config.RaftAddress, Role: founder})
			founder = fleet.Join
		}
		d = plane.Put(d)
		leads(t, plane, members)
	}
	return key
}

// writers enqueue jobs without an Idempotency-Key, one after the other, until stop.
type writers struct {
	t       *testing.T
	written atomic.Int32
	stopped atomic.Bool
	running sync.RWMutex // held for reading by each write
	all     sync.WaitGroup
}

// start starts n writers.
func (w *writers) start(ctx context.Context, n int, url, key string) {
	for range n {
		w.all.Go(func() {
			for !w.stopped.Load() && w.write(ctx, url, key) {
				w.written.Add(1)
			}
		})
	}
}

func (w *writers) write(ctx context.Context, url, key string) bool {
	w.running.RLock()
	defer w.running.RUnlock()
	r, err := http.NewRequestWithContext(ctx, "POST", url+"/api/v1/enqueue", strings.NewReader(`{"queue":"q"}`))
	if err != nil {
		w.t.Error(err)
		return false
	}
	r.Header.Set("Authorization", "Bearer "+key)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Error(err)
		return false
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusCreated || err != nil {
		w.t.Errorf("a write: %d %s %v", answer.StatusCode, body, err)
		return false
	}
	return true
}

// await waits until n more writes have succeeded.
func (w *writers) await(n int32) {
	w.t.Helper()
	before := w.written.Load()
	fleettest.Eventually(w.t, fmt.Sprintf("%d more writes", n), func() bool { return w.written.Load() >= before+n })
}

// finish waits for the writes that have begun.
func (w *writers) finish() {
	w.running.Lock()
	defer w.running.Unlock()
}

// stop ends the writers.
func (w *writers) stop() {
	w.stopped.Store(true)
	w.all.Wait()
}

// reader follows the events of enqueued jobs.
type reader struct {
	jobs   sync.Map // id -> struct{}
	seen   atomic.Int32
	resets atomic.Int32
}

// follow reads events until ctx ends.
func (x *reader) follow(ctx context.Context, t *testing.T, c *client.Client) {
	for e, err := range c.Events(ctx, client.EventQuery{After: "0"}) {
		switch {
		case err != nil:
			if ctx.Err() == nil {
				t.Errorf("the stream of events ends: %v", err)
			}
			return
		case e.Type == api.EventReset:
			x.resets.Add(1)
		case e.Type == "enqueued":
			if _, twice := x.jobs.LoadOrStore(e.JobID, struct{}{}); twice {
				t.Errorf("job %s was seen twice", e.JobID)
			}
			x.seen.Add(1)
		}
	}
}

// TestTenantsNoticeNoRestart restarts each of the three hosts of a namespace, while clients write without an
// Idempotency-Key and one follows the events. No write fails, and the follower sees each job once and no RESET.
func TestTenantsNoticeNoRestart(t *testing.T) {
	t.Parallel()
	plane := fleettest.NewTLS(t)
	members := []*member{newMember(t, plane, "host_1"), newMember(t, plane, "host_2"), newMember(t, plane, "host_3")}
	key := share(t, plane, members)
	url := openMembersGateway(t, plane)
	follower, err := client.New(url, key)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	var x reader
	var following sync.WaitGroup
	following.Go(func() { x.follow(ctx, t, follower) })
	w := &writers{t: t}
	w.start(ctx, 3, url, key)
	w.await(20)
	for _, m := range members {
		m.host.Drain()
		w.await(20) // the gateway learns of it, as within the time that the process waits
		w.finish()
		m.close()
		w.await(20)
		m.open()
		w.await(20)
	}
	w.stop()
	fleettest.Eventually(t, "the follower has seen all jobs", func() bool { return x.seen.Load() >= w.written.Load() })
	cancel()
	following.Wait()
	if x.seen.Load() != w.written.Load() || x.resets.Load() != 0 {
		t.Errorf("%d jobs written, %d seen, %d resets", w.written.Load(), x.seen.Load(), x.resets.Load())
	}
}
