package controlplane

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/api/fleet/fleettest"
	"github.com/corvo/corvo/tenancy/keyring"
)

// securePlane is a plane with a certificate. It serves TLS besides its plain front.
type securePlane struct {
	*plane
	held *certificate.Holder
	url  string
}

func startSecurePlane(t *testing.T) *securePlane {
	t.Helper()
	dir := t.TempDir()
	p := &securePlane{}
	p.plane = startPlane(t, func(c *Config) {
		var err error
		p.held, err = certificate.Open(certificate.Config{Path: filepath.Join(dir, certificate.FileName), Kind: certificate.ControlPlane, Now: c.Now, Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		c.NodeID, c.Certificate, c.RootsFile = "control-1", p.held, filepath.Join(dir, "roots.pem")
	})
	p.url = p.serve(t, wire.ControlPlaneServer(p.held))
	return p
}

// serve serves the plane over TLS and returns its URL.
func (p *securePlane) serve(t *testing.T, secure *tls.Config) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(p.front.Config.Handler)
	s.Listener.Close()
	s.Listener = tls.NewListener(listener, secure)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	s.Start()
	// The plane must have ended its streams before the listener waits for them.
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return "https://" + listener.Addr().String()
}

// roots lists the roots as an operator sees them.
func (p *securePlane) roots(t *testing.T) []api.FleetRoot {
	t.Helper()
	all, err := p.cloud(p.operator).FleetRoots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// inState waits until the roots have the states, in their order.
func (p *securePlane) inState(t *testing.T, states ...string) (all []api.FleetRoot) {
	t.Helper()
	until(t, "the roots are "+strings.Join(states, ", "), func() bool {
		all = p.roots(t)
		return slices.EqualFunc(all, states, func(r api.FleetRoot, state string) bool { return r.State == state })
	})
	return all
}

// secured is a host or gateway that joins over TLS.
type secured struct {
	held *certificate.Holder
	path string
	stop func()
}

// join registers a member and runs it.
func (p *securePlane) join(t *testing.T, name string, kind keyring.Kind) *secured {
	t.Helper()
	credential := newCredential(t, kind)
	if err := p.EnsureHost(t.Context(), name, kind, "local", credential); err != nil {
		t.Fatal(err)
	}
	config := certificate.Config{Path: filepath.Join(t.TempDir(), certificate.FileName), Kind: certificate.Gateway, FleetRoot: p.FleetRoot(), Logger: quiet()}
	request := wire.JoinRequest{Version: "test"}
	if kind == keyring.Host {
		config.Kind, config.Store = certificate.Host, newStoreID(t)
		request.Address, request.Store = "https://127.0.0.1:1", config.Store
	}
	s := &secured{path: config.Path}
	var err error
	if s.held, err = certificate.Open(config); err != nil {
		t.Fatal(err)
	}
	s.run(t, p.url, credential, request)
	return s
}

// run runs the member until stop or the end of the test.
func (s *secured) run(t *testing.T, url, credential string, request wire.JoinRequest) {
	t.Helper()
	m, err := wire.NewMember(wire.MemberConfig{ControlPlane: url, Credential: credential, Certificate: s.held, Join: request, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := m.Run(ctx, wire.Follow{}); err != nil {
			t.Error(err)
		}
	})
	s.stop = func() { cancel(); running.Wait() }
	t.Cleanup(s.stop)
	fleettest.Eventually(t, "the member follows", m.Connected)
}

// issuer returns the fingerprint of the root of a member's certificate.
func issuer(h *certificate.Holder) string {
	_, issuer := h.Trust()
	return issuer
}

// TestRotationOverTLS rotates the fleet's root under a host and a gateway that run, and restarts the control plane between
// the steps. At the end all have certificates of the new root, and one of the old root is refused.
func TestRotationOverTLS(t *testing.T) {
	t.Parallel()
	p := startSecurePlane(t)
	host, gateway := p.join(t, "h", keyring.Host), p.join(t, "g", keyring.Gateway)
	first := p.FleetRoot()
	copied := filepath.Join(t.TempDir(), certificate.FileName)
	p.restart()
	made, err := p.cloud(p.operator).RotateFleetRoot(t.Context(), api.RotateFleetRootRequest{Announce: "1h"})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := p.cloud(p.operator).RotateFleetRoot(t.Context(), api.RotateFleetRootRequest{}); err != nil || again.Fingerprint != made.Fingerprint {
		t.Fatalf("a repeat announced %s after %s: %v", again.Fingerprint, made.Fingerprint, err)
	}
	until(t, "both members have reported that they trust the new root", func() bool {
		all := p.inState(t, api.RootSigning, api.RootAnnounced)
		return len(all[1].WaitsFor) == 0
	})
	for what, h := range map[string]*certificate.Holder{"the host": host.held, "the gateway": gateway.held, "the control plane": p.held} {
		if roots, got := h.Trust(); !slices.Equal(roots, []string{first, made.Fingerprint}) || got != first {
			t.Errorf("while the root is announced, %s trusts %v with a certificate of %s", what, roots, got)
		}
	}
	old, err := os.ReadFile(host.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(copied, old, 0o600); err != nil {
		t.Fatal(err)
	}
	p.restart()
	if err := p.cloud(p.operator).SwitchFleetRoot(t.Context(), made.Fingerprint); err != nil {
		t.Fatal(err)
	}
	p.restart()
	last := p.inState(t, api.RootSigning)
	if last[0].Fingerprint != made.Fingerprint || p.FleetRoot() != made.Fingerprint {
		t.Errorf("at the end the root is %s", last[0].Fingerprint)
	}
	for what, h := range map[string]*certificate.Holder{"the host": host.held, "the gateway": gateway.held, "the control plane": p.held} {
		until(t, what+" has the new root alone", func() bool {
			roots, got := h.Trust()
			return slices.Equal(roots, []string{made.Fingerprint}) && got == made.Fingerprint
		})
	}
	until(t, "the operators' file has the new root alone", func() bool {
		text, err := os.ReadFile(p.cfg.RootsFile)
		return err == nil && string(text) == last[0].Certificate
	})
	late, err := certificate.Open(certificate.Config{Path: copied, Kind: certificate.Host, Store: host.held.Member().Identity.Store, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: wire.ControlPlaneClient(late)}, Timeout: waitLimit}
	defer client.CloseIdleConnections()
	if answer, err := client.Get(p.url + "/healthz"); err == nil {
		answer.Body.Close()
		t.Error("a certificate of the retired root is let in")
	}
}

// TestAMemberThatMissedTheRotation starts a host that was away while the root was replaced. It does not send its credential,
// and the error says how to give it the new root; without its file and with that root it joins.
func TestAMemberThatMissedTheRotation(t *testing.T) {
	t.Parallel()
	p := startSecurePlane(t)
	host := p.join(t, "h", keyring.Host)
	host.stop()
	until(t, "the control plane has the host's roots", func() bool {
		members, err := p.store.MemberRoots(t.Context())
		return err == nil && len(members) == 1
	})
	made, err := p.cloud(p.operator).RotateFleetRoot(t.Context(), api.RotateFleetRootRequest{Announce: "0s"})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cloud(p.operator).SwitchFleetRoot(t.Context(), made.Fingerprint); api.CodeOf(err) != api.StateConflict || !strings.Contains(err.Error(), ": h") {
		t.Fatalf("the root signs without the host: %v", err)
	}
	if all := p.roots(t); !slices.Equal(all[1].WaitsFor, []string{"h"}) {
		t.Errorf("the new root waits for %v", all[1].WaitsFor)
	}
	if err := p.cloud(p.operator).SwitchFleetRoot(t.Context(), made.Fingerprint, "h"); err != nil {
		t.Fatal(err)
	}
	until(t, "the control plane shows the new root", func() bool { return issuer(p.held) == made.Fingerprint })
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: host.held.JoinClient()}, Timeout: waitLimit}
	defer client.CloseIdleConnections()
	answer, err := client.Post(p.url+wire.JoinPath, "application/json", strings.NewReader("{}"))
	if err == nil {
		answer.Body.Close()
		t.Fatal("the host trusts a root that nobody has given it")
	}
	for _, word := range []string{"remove " + host.path, "--fleet-root", "corvo cloud fleet-roots list"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not say %q: %v", word, err)
		}
	}
	if all := p.roots(t); len(all) != 2 || !slices.Equal(all[0].WaitsFor, []string{"h"}) {
		t.Errorf("the old root does not wait for the certificate of the host: %+v", all)
	}
	p.clock.forward(certificate.Life + time.Hour)
	p.restart() // the new leader looks at the clock
	p.inState(t, api.RootSigning)
}
