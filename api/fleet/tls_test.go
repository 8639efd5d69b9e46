package fleet_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/api/fleet/fleettest"
	"github.com/corvo/corvo/tenancy/keyring"
	"github.com/corvo/corvo/tenancy/token"
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
// itself takes an expired certificate for valid and only the other side can refuse it. With a negative age and a clock
// that is fast, only the other side sees that the certificate is not valid yet.
func (a authority) holder(who certificate.Identity, age, slow time.Duration) *certificate.Holder {
	a.t.Helper()
	issued := time.Now().Add(-age)
	now := func() time.Time { return time.Now().Add(-slow) }
	var names []string
	if who.Kind == certificate.ControlPlane {
		names = []string{"127.0.0.1"} // for operators
	}
	return fleettest.Certified(a.t, a.Root, who, issued, now, names...)
}

// These are ages of certificates that another part refuses.
const (
	day     = 24 * time.Hour
	expired = certificate.Life + time.Minute
	early   = -time.Hour // in the future
)

// trusting returns the holder of a member of a's fleet that trusts the other fleet's root too, so that only the other side
// can refuse it.
func (a authority) trusting(who certificate.Identity, other authority) *certificate.Holder {
	a.t.Helper()
	h := a.holder(who, 0, 0)
	both, err := certificate.NewBundle(a.DER(), other.DER())
	if err == nil {
		err = h.Accept(who.ID, nil, both)
	}
	if err != nil {
		a.t.Fatal(err)
	}
	return h
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

// outcome is what a request led to: whether it reached the handler, the error of the client, and the log of the server.
type outcome struct {
	served         bool
	client, server string
}

// ask sends a request over TLS.
func ask(t *testing.T, server, client *tls.Config) (a outcome) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var logged lockedText
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { a.served = true }))
	s.Listener.Close()
	s.Listener = tls.NewListener(listener, server)
	s.Config.ErrorLog = log.New(&logged, "", 0)
	s.Start()
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: client}, Timeout: time.Minute}
	answer, err := c.Get("https://" + listener.Addr().String())
	if err == nil {
		answer.Body.Close()
	} else {
		a.client = err.Error()
	}
	c.CloseIdleConnections()
	s.Close() // waits for the handler
	a.server = logged.String()
	return a
}

// refused checks that the request did not reach the handler and that the text of the refusing side has all reasons.
func (a outcome) refused(t *testing.T, what, side string, reasons []string) {
	t.Helper()
	for _, reason := range reasons {
		if a.served || !strings.Contains(side, reason) {
			t.Errorf("%s: want a refusal with %q at the refusing side: %+v", what, reason, a)
		}
	}
}

// operating returns the configuration of an operator's program, which trusts the file with the roots and compares the name in
// the URL. It shows no certificate.
func (a authority) operating() *tls.Config {
	a.t.Helper()
	root, err := x509.ParseCertificate(a.DER())
	if err != nil {
		a.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(root)
	return &tls.Config{RootCAs: roots}
}

// TestConnectionsOfTheFleet connects each pair of parts with the configurations that the processes use. On either side it
// shows an expired certificate, one that is not valid yet, one of another fleet, and those of members that have no
// business there. The other side refuses each of them, and its error or log says why.
//
// The processes of the control plane among themselves are in TestOnlyMembersSpeak of engine/cluster. A member that was
// removed has a good certificate: TestARemovedMemberIsRefused of controlplane/server and TestAStrangerSpeaksNoRaft of
// dataplane show what refuses it.
func TestConnectionsOfTheFleet(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t), newAuthority(t)
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
			if a := ask(t, pair.serving(server), pair.calling(client)); !a.served {
				t.Fatalf("refused: %+v", a)
			}
			serverRefused := func(what string, server *certificate.Holder, reasons ...string) {
				t.Helper()
				a := ask(t, pair.serving(server), pair.calling(client))
				a.refused(t, "server "+what, a.client, reasons)
			}
			clientRefused := func(what string, server, client *certificate.Holder, reasons ...string) {
				t.Helper()
				a := ask(t, pair.serving(server), pair.calling(client))
				a.refused(t, "client "+what, a.server, reasons)
			}
			serverRefused("expired", ours.holder(pair.server, expired, day), "was valid until", "reach the control plane, which renews it, or set the clocks")
			clientRefused("expired", server, ours.holder(pair.client, expired, 2*time.Minute), "was valid until", "reach the control plane, which renews it, or set the clocks")
			serverRefused("not yet valid", ours.holder(pair.server, early, early), "is valid from", "set the clocks of both")
			clientRefused("not yet valid", server, ours.holder(pair.client, early, early), "is valid from", "set the clocks of both")
			serverRefused("of another fleet", theirs.holder(pair.server, 0, 0), "of another fleet", "--fleet-root")
			clientRefused("of another fleet", server, theirs.trusting(pair.client, ours), "of another fleet", "--fleet-root")
			for _, who := range pair.strangeServers {
				serverRefused(who.String(), ours.holder(who, 0, 0), who.String()+" is at the other end", "been given to another?")
			}
			for _, who := range pair.strangeClients {
				clientRefused(who.String(), server, ours.holder(who, 0, 0), who.String()+" is at the other end", "been given to another?")
			}
		})
	}
}

// TestAMemberIsToldThatItIsRefused joins as a host whose certificate has expired by the clock of the control plane alone. A
// join needs no certificate, but the control plane then refuses the stream, and the log of the host says where to look.
func TestAMemberIsToldThatItIsRefused(t *testing.T) {
	t.Parallel()
	ours := newAuthority(t)
	held := ours.holder(hostMember, expired, 2*time.Minute)
	key, err := token.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	credential, _, _, err := keyring.New(rand.Reader, keyring.Host)
	if err != nil {
		t.Fatal(err)
	}
	plane := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(fleet.JoinAnswer{
			ID: hostMember.ID, Token: "token", ExpiresAt: time.Now().Add(time.Hour), JWKS: token.NewSet(key.Public()).JWKS(), Roots: held.Member().Bundle,
		})
	}))
	plane.Listener = tls.NewListener(plane.Listener, fleet.ControlPlaneServer(ours.holder(planeMember, 0, 0)))
	plane.Config.ErrorLog = log.New(io.Discard, "", 0)
	plane.Start()
	defer plane.Close()
	var logged lockedText
	m, err := fleet.NewMember(fleet.MemberConfig{
		ControlPlane: "https" + strings.TrimPrefix(plane.URL, "http"), Credential: credential, Certificate: held, Join: fleet.JoinRequest{Address: "https://127.0.0.1:1", Store: testStore},
		Logger: slog.New(slog.NewTextHandler(&logged, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx, fleet.Follow{}) }()
	fleettest.Eventually(t, "the log explains the refusal", func() bool {
		return strings.Contains(logged.String(), "the control plane refuses this member's certificate, and its log says why")
	})
	if _, err := m.Report(ctx, fleet.Report{}); api.CodeOf(err) != api.LeaderUnavailable || !strings.Contains(err.Error(), "its log says why") {
		t.Errorf("a report: %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestOperatorsOfTheFleet connects an operator's program with the control plane. The program shows no certificate, which a host
// would refuse.
func TestOperatorsOfTheFleet(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t), newAuthority(t)
	for name, c := range map[string]struct {
		held    *certificate.Holder
		refused string // by the program; "" = it is served
	}{
		"good":             {ours.holder(planeMember, 0, 0), ""},
		"expired":          {ours.holder(planeMember, expired, day), "certificate has expired or is not yet valid: current time"},
		"not yet valid":    {ours.holder(planeMember, early, early), "certificate has expired or is not yet valid: current time"},
		"of another fleet": {theirs.holder(planeMember, 0, 0), "signed by unknown authority"},
		"of a host":        {ours.holder(hostMember, 0, 0), "doesn't contain any IP SANs"},
		"of a gateway":     {ours.holder(gatewayMember, 0, 0), "doesn't contain any IP SANs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := ask(t, fleet.ControlPlaneServer(c.held), authority{ours.Root, t}.operating())
			if c.refused != "" {
				a.refused(t, "control plane "+name, a.client, []string{c.refused})
			} else if !a.served {
				t.Errorf("refused: %+v", a)
			}
		})
	}
	t.Run("a host has no clients without a certificate", func(t *testing.T) {
		t.Parallel()
		a := ask(t, fleet.HostServer(authority{ours.Root, t}.holder(hostMember, 0, 0)), &tls.Config{InsecureSkipVerify: true})
		a.refused(t, "no certificate", a.server, []string{"didn't provide a certificate"})
	})
}
