package fleet_test

import (
	"bytes"
	"crypto/tls"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/api/fleet/fleettest"
)

// These are the members of the tests of TLS.
var (
	planeMember   = certificate.Identity{Kind: certificate.ControlPlane, ID: "control-1"}
	gatewayMember = certificate.Identity{Kind: certificate.Gateway, ID: "gw_1"}
	hostMember    = certificate.Identity{Kind: certificate.Host, ID: "host_1", Store: testStore}
)

// authority is the root of a fleet.
type authority struct {
	*certificate.Root
	t *testing.T
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	return authority{fleettest.NewRoot(t, time.Now().Add(-2*certificate.Life)), t}
}

// holder returns the holder of a member with a certificate of some age, and with a clock that is slow, so that the member
// itself takes an expired certificate for valid and only the other side can refuse it.
func (a authority) holder(who certificate.Identity, age, slow time.Duration) *certificate.Holder {
	a.t.Helper()
	issued := time.Now().Add(-age)
	now := func() time.Time { return time.Now().Add(-slow) }
	return fleettest.Certified(a.t, a.Root, who, issued, now)
}

// lockedText has the lines of a log.
type lockedText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// ask sends a request over TLS. served tells whether it reached the handler, and reasons has the error of the client and
// the log of the server.
func ask(t *testing.T, server, client *tls.Config) (served bool, reasons string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var logged lockedText
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true }))
	s.Listener.Close()
	s.Listener = tls.NewListener(listener, server)
	s.Config.ErrorLog = log.New(&logged, "", 0)
	s.Start()
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: client}, Timeout: time.Minute}
	answer, err := c.Get("https://" + listener.Addr().String())
	if err == nil {
		answer.Body.Close()
	} else {
		reasons = err.Error()
	}
	c.CloseIdleConnections()
	s.Close() // waits for the handler
	return served, reasons + logged.String()
}

// TestConnectionsOfTheFleet connects each pair of parts with the configurations that the processes use. In each pair an
// expired certificate, one of another fleet, and one of a member that has no business there are refused, on
// either side.
func TestConnectionsOfTheFleet(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t), newAuthority(t)
	const day = 24 * time.Hour
	const expired = certificate.Life + time.Minute
	otherHost, otherStore := hostMember, hostMember
	otherHost.ID, otherStore.Store = "host_2", fleet.StorePrefix+"01hyyyyyyyyyyyyyyyyyyyyyyy"
	toHost := func(h *certificate.Holder) *tls.Config { return fleet.HostClient(h, hostMember.ID, hostMember.Store) }
	for name, pair := range map[string]struct {
		server, client                 certificate.Identity
		serving, calling               func(*certificate.Holder) *tls.Config
		strangeServers, strangeClients []certificate.Identity
	}{
		"a host calls the control plane": {
			server: planeMember, client: hostMember, serving: fleet.ControlPlaneServer, calling: fleet.ControlPlaneClient,
			strangeServers: []certificate.Identity{otherHost, gatewayMember}, strangeClients: []certificate.Identity{planeMember},
		},
		"a gateway calls the control plane": {
			server: planeMember, client: gatewayMember, serving: fleet.ControlPlaneServer, calling: fleet.ControlPlaneClient,
			strangeServers: []certificate.Identity{hostMember, gatewayMember}, strangeClients: []certificate.Identity{planeMember},
		},
		"a gateway calls a host": {
			server: hostMember, client: gatewayMember, serving: fleet.HostServer, calling: toHost,
			strangeServers: []certificate.Identity{otherHost, otherStore, planeMember, gatewayMember}, strangeClients: []certificate.Identity{otherHost, planeMember},
		},
		"a host calls another host": {
			server: hostMember, client: otherHost,
			serving: func(h *certificate.Holder) *tls.Config { return fleet.NewHostPeer(h).Server() },
			calling: func(h *certificate.Holder) *tls.Config { return fleet.NewHostPeer(h).Client(hostMember.Store) },

			strangeServers: []certificate.Identity{otherStore, planeMember, gatewayMember}, strangeClients: []certificate.Identity{gatewayMember, planeMember},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours, theirs := authority{ours.Root, t}, authority{theirs.Root, t}
			server, client := ours.holder(pair.server, 0, 0), ours.holder(pair.client, 0, 0)
			if served, reasons := ask(t, pair.serving(server), pair.calling(client)); !served {
				t.Fatal("refused:", reasons)
			}
			refused := func(what string, server, client *certificate.Holder, reason string) {
				t.Helper()
				served, reasons := ask(t, pair.serving(server), pair.calling(client))
				if served || !strings.Contains(reasons, reason) {
					t.Errorf("%s: served %t, want a refusal with %q: %s", what, served, reason, reasons)
				}
			}
			refused("expired server", ours.holder(pair.server, expired, day), client, "was valid until")
			refused("expired client", ours.holder(pair.server, 2*day, 0), ours.holder(pair.client, expired, day), "was valid until")
			refused("server of another fleet", theirs.holder(pair.server, 0, 0), client, "of another fleet")
			refused("client of another fleet", server, theirs.holder(pair.client, 0, 0), "of another fleet")
			for _, who := range pair.strangeServers {
				refused("server "+who.String(), ours.holder(who, 0, 0), client, who.String()+" is at the other end")
			}
			for _, who := range pair.strangeClients {
				refused("client "+who.String(), server, ours.holder(who, 0, 0), who.String()+" is at the other end")
			}
		})
	}
	t.Run("a host has no clients without a certificate", func(t *testing.T) {
		t.Parallel()
		host := authority{ours.Root, t}.holder(hostMember, 0, 0)
		client := &tls.Config{InsecureSkipVerify: true}
		if served, reasons := ask(t, fleet.HostServer(host), client); served || !strings.Contains(reasons, "didn't provide a certificate") {
			t.Errorf("served %t: %s", served, reasons)
		}
		if served, reasons := ask(t, fleet.ControlPlaneServer(authority{ours.Root, t}.holder(planeMember, 0, 0)), client); !served {
			t.Error("the control plane refuses a client without a certificate:", reasons)
		}
	})
}
