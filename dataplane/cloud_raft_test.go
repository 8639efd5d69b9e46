package dataplane_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/api/fleet/fleettest"
	"github.com/corvo/corvo/dataplane"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/transport"
	"github.com/corvo/corvo/tenancy/keyring"
)

// peerHost is a host with a certificate and a listener for the Raft members on other hosts. It is reopened at the
// same address.
type peerHost struct {
	cloud
	id, raft    string
	certificate *certificate.Holder
}

// newPeerHosts opens hosts of one fleet and waits until they have joined.
func newPeerHosts(t *testing.T, n int) (plane *fleettest.ControlPlane, all []*peerHost) {
	t.Helper()
	plane = fleettest.NewTLS(t)
	held, err := certificate.Open(certificate.Config{Path: filepath.Join(t.TempDir(), certificate.FileName), Kind: certificate.Gateway, FleetRoot: plane.Root(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	gateway := &http.Client{Transport: &http.Transport{TLSClientConfig: held.JoinClient()}}
	t.Cleanup(gateway.CloseIdleConnections)
	for i := range n {
		h := &peerHost{id: "host_" + string(rune('1'+i)), cloud: cloud{
			t: t, plane: plane, dir: filepath.Join(t.TempDir(), "data"), spans: tracetest.NewSpanRecorder(), logger: slog.New(slog.DiscardHandler),
		}}
		h.credential = plane.Register(h.id, keyring.Host)
		h.pass = h.join(gateway, keyring.Gateway).HostToken
		h.certify()
		h.tune = func(cfg *dataplane.HostConfig) {
			var err error
			if cfg.Raft, err = net.Listen("tcp", h.address()); err != nil {
				t.Fatal(err)
			}
			h.raft = cfg.Raft.Addr().String()
			cfg.RaftAddress, cfg.Certificate, cfg.Address = h.raft, h.certificate, "https://127.0.0.1:1"
		}
		t.Cleanup(h.close)
		h.open()
		all = append(all, h)
	}
	for _, h := range all {
		fleettest.Eventually(t, h.id+" has joined and named its Raft address", func() bool {
			return plane.Store(h.id) == h.store && plane.Raft(h.id) == h.raft
		})
	}
	return plane, all
}

// certify makes the host's store and opens its certificate.
func (h *peerHost) certify() {
	h.t.Helper()
	h.makeStore()
	var err error
	h.certificate, err = certificate.Open(certificate.Config{
		Path: filepath.Join(h.dir, certificate.FileName), Kind: certificate.Host, Store: h.store, FleetRoot: h.plane.Root(), Logger: h.logger,
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// address returns where the host listens for Raft: at any port when it is opened for the first time.
func (h *peerHost) address() string {
	if h.raft == "" {
		return "127.0.0.1:0"
	}
	return h.raft
}

// shared returns a document that places ns_a on hosts. The role of the first is given.
func shared(role string, key fleet.Key, hosts []*peerHost) fleet.Doc {
	d := hosts[0].placed("ns_a", 1, key)
	d.Members, d.Incarnations, d.Ready = nil, []entry.Incarnation{{1}}, role != fleet.Found
	for _, h := range hosts {
		d.Members = append(d.Members, fleet.GroupMember{Store: h.store, Host: h.id, URL: "https://127.0.0.1:1", Raft: h.raft, Role: role})
		role = fleet.Join
	}
	return d
}

// leading waits until one of the hosts has reported, since the given number of reports, that it leads a group with
// exactly these voters.
func leading(t *testing.T, plane *fleettest.ControlPlane, since int, voters []*peerHost) {
	t.Helper()
	var stores []string
	for _, h := range voters {
		stores = append(stores, h.store)
	}
	slices.Sort(stores)
	fleettest.Eventually(t, "a host leads the group of all", func() bool {
		for _, r := range plane.Reports()[since:] {
			for _, c := range r.Cells {
				for _, g := range c.Groups {
					if g.Role == fleet.Leading && slices.Equal(slices.Sorted(slices.Values(g.Voters)), stores) && len(g.Learners) == 0 {
						return true
					}
				}
			}
		}
		return false
	})
}

// TestHostsShareANamespace places a namespace on three hosts, which speak Raft with each other by the fleet's
// certificates. Each host takes writes. When the host that founded the group is away, the others elect a leader and
// serve all jobs. The host catches up when it is back, also while the control plane is away.
func TestHostsShareANamespace(t *testing.T) {
	t.Parallel()
	plane, hosts := newPeerHosts(t, 3)
	text, key := hosts[0].key(keyring.Namespace)
	plane.Put(shared(fleet.Found, key, hosts))
	leading(t, plane, 0, hosts)
	plane.Put(shared(fleet.Join, key, hosts))
	var ids []string
	for _, h := range hosts {
		ids = append(ids, h.enqueueSoon(text))
	}
	plane.SetDown(true)
	hosts[0].close()
	for _, h := range hosts[1:] {
		ids = append(ids, h.enqueueSoon(text))
	}
	hosts[0].open()
	for _, h := range hosts {
		for _, id := range ids {
			fleettest.Eventually(t, h.id+" serves "+id, func() bool {
				return h.send("GET", "/api/v1/jobs/"+id+"?consistency=strong", text, "").status == http.StatusOK
			})
		}
	}
}

// enqueueSoon creates a job as soon as a leader takes it.
func (h *peerHost) enqueueSoon(key string) string {
	h.t.Helper()
	var made api.EnqueueResponse
	fleettest.Eventually(h.t, h.id+" takes a job", func() bool {
		a := h.send("POST", "/api/v1/enqueue", key, `{"queue":"q"}`)
		return a.status == http.StatusCreated && json.Unmarshal([]byte(a.body), &made) == nil
	})
	return made.JobID
}

// transportOf opens the transport of a host with a certificate, as OpenHost does.
func transportOf(t *testing.T, store string, held *certificate.Holder) *transport.Transport {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	peers, err := transport.Open(transport.Config{NodeID: store, Listener: listener, Identity: fleet.NewHostPeer(held), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := peers.Close(); err != nil {
			t.Error(err)
		}
	})
	return peers
}

// TestAStrangerSpeaksNoRaft lets processes call the leader of a group on a host. Certificates that prove no host of the
// fleet are refused in the handshake, and a host that is no member in the group.
func TestAStrangerSpeaksNoRaft(t *testing.T) {
	t.Parallel()
	const expired = certificate.Life + time.Minute
	now := time.Now()
	root, other := fleettest.NewRoot(t, now.Add(-2*certificate.Life)), fleettest.NewRoot(t, now.Add(-2*certificate.Life))
	identity := func(store string) certificate.Identity {
		return certificate.Identity{Kind: certificate.Host, ID: "host_" + store, Store: store}
	}
	own := transportOf(t, "a", fleettest.Certified(t, root, identity("a"), now, nil))
	h, err := host.Open(host.Config{DataDir: t.TempDir(), NodeID: "a", Engine: engine.Tuning{Transport: own}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(h.Add(t.Context(), "ns_a", host.Spec{Incarnations: []entry.Incarnation{{1}}}), h.Ready(t.Context(), "ns_a")); err != nil {
		t.Fatal(err)
	}
	slow := func() time.Time { return time.Now().Add(-2 * time.Minute) } // so that only the host refuses the certificate
	for name, c := range map[string]struct {
		held      *certificate.Holder
		handshake string // in the refusal of the handshake; "" = it succeeds
	}{
		"an expired certificate":         {fleettest.Certified(t, root, identity("b"), now.Add(-expired), slow), "does not accept this node's certificate"},
		"a certificate of another fleet": {fleettest.Certified(t, other, identity("b"), now, nil), "is of another fleet"},
		"a gateway's certificate":        {fleettest.Certified(t, root, certificate.Identity{Kind: certificate.Gateway, ID: "b"}, now, nil), "does not accept this node's certificate"},
		"a host that is no member":       {fleettest.Certified(t, root, identity("b"), now, nil), ""},
	} {
		t.Run(name, func(t *testing.T) {
			x := transportOf(t, "b", c.held)
			g, err := x.Group("ns_a/0", entry.Incarnation{1})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			to := transport.Peer{ID: "a", Address: own.Address()}
			_, inProcess := x.Call(ctx, to, 200, nil)
			_, inGroup := g.Call(ctx, to, 3, nil)
			if c.handshake == "" {
				if errors.Is(inProcess, transport.ErrRefused) || inGroup == nil || !strings.Contains(inGroup.Error(), "may not speak in group") {
					t.Errorf("the process is told %v, its member %v", inProcess, inGroup)
				}
				return
			}
			for _, err := range []error{inProcess, inGroup} {
				if !errors.Is(err, transport.ErrRefused) || !transport.Unsent(err) || !strings.Contains(err.Error(), c.handshake) {
					t.Error(err)
				}
			}
		})
	}
}

// TestANamespaceOfOneReplicaIsQuiet opens a directory that was made without a Raft address on a host that has one. The
// group records the address once, and writes no further configuration when it is opened again.
func TestANamespaceOfOneReplicaIsQuiet(t *testing.T) {
	t.Parallel()
	root, dir := fleettest.NewRoot(t, time.Now()), t.TempDir()
	peers := transportOf(t, "a", fleettest.Certified(t, root, certificate.Identity{Kind: certificate.Host, ID: "host_1", Store: "a"}, time.Now(), nil))
	// open opens the namespace until its configuration has the given address, and returns the index of the configuration.
	open := func(peers *transport.Transport, address string) (index uint64) {
		t.Helper()
		h, err := host.Open(host.Config{DataDir: dir, NodeID: "a", Engine: engine.Tuning{Transport: peers}, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(h.Add(t.Context(), "ns_a", host.Spec{}), h.Ready(t.Context(), "ns_a")); err != nil {
			t.Fatal(err)
		}
		cells, err := h.Cells("ns_a")
		if err != nil {
			t.Fatal(err)
		}
		fleettest.Eventually(t, "the configuration has the address "+address, func() bool {
			members, at := cells[0].Engine().Configuration()
			index = at
			return len(members) == 1 && members[0].Address == address
		})
		if err := h.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		return index
	}
	without := open(nil, "a")
	with := open(peers, peers.Address())
	if with <= without {
		t.Errorf("configuration %d without the address, %d with it", without, with)
	}
	if again := open(peers, peers.Address()); again != with {
		t.Errorf("configuration %d became %d when the directory was opened again", with, again)
	}
}
