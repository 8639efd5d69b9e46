package server

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/api/fleet/fleettest"
	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/tenancy/keyring"
)

// TestJoinIssuesACertificate joins as a host and as a gateway with a certificate signing request.
func TestJoinIssuesACertificate(t *testing.T) {
	t.Parallel()
	f, _ := start(t)
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
	csr, err := certificate.NewRequest(key)
	if err != nil {
		t.Fatal(err)
	}
	host, hostCredential := f.host("one", keyring.Host)
	gateway, gatewayCredential := f.host("g", keyring.Gateway)
	store := newStoreID(t)
	for _, c := range []struct {
		credential string
		join       wire.JoinRequest
		want       certificate.Identity
	}{
		{hostCredential, wire.JoinRequest{Address: "http://one.test", Store: store}, certificate.Identity{Kind: certificate.Host, ID: host, Store: store}},
		{gatewayCredential, wire.JoinRequest{}, certificate.Identity{Kind: certificate.Gateway, ID: gateway}},
	} {
		if answer := f.joinAs(c.credential, c.join); answer.Certificate != nil {
			t.Errorf("%s gets a certificate that it has not asked for", c.want)
		}
		c.join.CSR = csr
		answer := f.joinAs(c.credential, c.join)
		m, err := certificate.NewMember(key, answer.Certificate, answer.Roots)
		if err != nil {
			t.Fatal(err)
		}
		if m.Identity != c.want {
			t.Errorf("the certificate is of %s, want %s", m.Identity, c.want)
		}
		if stage := m.StageAt(f.now()); stage != certificate.Fresh {
			t.Errorf("the certificate of %s is %s", c.want, stage)
		}
	}
	for name, csr := range map[string][]byte{"damaged": []byte("x"), "has 4097 bytes": make([]byte, certificate.MaxRequestBytes+1)} {
		body, err := json.Marshal(wire.JoinRequest{CSR: csr, Format: wire.DocFormat})
		if err != nil {
			t.Fatal(err)
		}
		a := f.send("POST", wire.JoinPath, gatewayCredential, string(body))
		if p := a.problem(t); a.status != http.StatusBadRequest || p.Code != api.ValidationError || !strings.Contains(p.Error, name) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
}

// serveTLS serves the front over TLS as a process with a certificate does, and returns the address.
func (f *front) serveTLS(t *testing.T) (address string) {
	t.Helper()
	held := f.holder(t, certificate.ControlPlane, "")
	if err := f.server.cfg.Authority.Certify(held, "control-1", []string{"localhost", "127.0.0.1"}, f.now(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(f.server)
	s.Listener.Close()
	s.Listener = tls.NewListener(listener, wire.ControlPlaneServer(held))
	s.Start()
	t.Cleanup(s.Close)
	return listener.Addr().String()
}

func (f *front) holder(t *testing.T, kind certificate.Kind, store string) *certificate.Holder {
	t.Helper()
	h, err := certificate.Open(certificate.Config{
		Path: filepath.Join(t.TempDir(), certificate.FileName), Kind: kind, Store: store, Now: f.now,
		FleetRoot: f.server.cfg.Authority.Fingerprint(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestATokenNeedsItsCertificate sends a host's service token over TLS with its certificate, with that of another host, and
// without any.
func TestATokenNeedsItsCertificate(t *testing.T) {
	t.Parallel()
	f, _ := start(t)
	address := f.serveTLS(t)
	send := func(config *tls.Config, path, bearer string, in, out any) (int, string) {
		t.Helper()
		body, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), "POST", "https://"+address+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+bearer)
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: config}, Timeout: time.Minute}
		defer c.CloseIdleConnections()
		resp, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var text bytes.Buffer
		if _, err := text.ReadFrom(resp.Body); err != nil {
			t.Fatal(err)
		}
		if out != nil && json.Unmarshal(text.Bytes(), out) != nil {
			t.Fatalf("%s: %d %s", path, resp.StatusCode, text.String())
		}
		return resp.StatusCode, text.String()
	}
	joined := map[string]*certificate.Holder{}
	tokens := map[string]string{}
	for _, name := range []string{"one", "two"} {
		_, credential := f.host(name, keyring.Host)
		store := newStoreID(t)
		h := f.holder(t, certificate.Host, store)
		csr, err := h.Request()
		if err != nil {
			t.Fatal(err)
		}
		var answer wire.JoinAnswer
		send(h.JoinClient(), wire.JoinPath, credential, wire.JoinRequest{Address: "https://" + name + ".test", Store: store, CSR: csr, Format: wire.DocFormat}, &answer)
		if err := h.Accept(answer.ID, answer.Certificate, answer.Roots); err != nil {
			t.Fatal(err)
		}
		joined[name], tokens[name] = h, answer.Token
	}
	for name, c := range map[string]struct {
		config *tls.Config
		status int
		says   string
	}{
		"its own certificate":        {wire.ControlPlaneClient(joined["one"]), 200, "{}"},
		"no certificate":             {joined["one"].JoinClient(), 401, "comes without its certificate"},
		"another host's certificate": {wire.ControlPlaneClient(joined["two"]), 401, "comes with the certificate of " + joined["two"].Member().Identity.String()},
	} {
		if status, says := send(c.config, wire.ReportPath, tokens["one"], wire.Report{Sequence: 1}, nil); status != c.status || !strings.Contains(says, c.says) {
			t.Errorf("with %s: %d %s", name, status, says)
		}
	}
}

// TestOperatorsVerifyTheControlPlaneByName connects as programs do that know only the file with the roots.
func TestOperatorsVerifyTheControlPlaneByName(t *testing.T) {
	t.Parallel()
	f, _ := start(t)
	_, port, err := net.SplitHostPort(f.serveTLS(t))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(f.server.cfg.Authority.Bundle().PEM()) {
		t.Fatal("the bundle has no certificate in PEM")
	}
	for name, good := range map[string]bool{"localhost": true, "127.0.0.1": true, "control.test": false} {
		conn, err := tls.Dial("tcp", "127.0.0.1:"+port, &tls.Config{RootCAs: roots, ServerName: name})
		if err == nil {
			conn.Close()
		}
		if (err == nil) != good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReadinessWarnsOfTheCertificate moves the clock through the last days of the certificate of a process that cannot
// renew it.
func TestReadinessWarnsOfTheCertificate(t *testing.T) {
	t.Parallel()
	f, _ := start(t)
	var clock fleettest.Clock
	held, err := certificate.Open(certificate.Config{
		Path: filepath.Join(t.TempDir(), certificate.FileName), Kind: certificate.ControlPlane, Now: clock.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := f.server.cfg
	cfg.Certificate, cfg.Metrics = held, telemetry.NewRegistry()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := cfg.Authority.Certify(held, "control-1", nil, time.Now(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	before := held.Member()
	if err := cfg.Authority.Certify(held, "control-1", nil, time.Now(), rand.Reader); err != nil || held.Member() != before {
		t.Error("a fresh certificate was replaced:", err)
	}
	fleettest.CheckExpiry(t, &clock, s, cfg.Metrics.Handler())
	if err := cfg.Authority.Certify(held, "control-1", nil, clock.Now(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	if status, says := fleettest.Ask(t, s, "/readyz"); status != 200 {
		t.Errorf("after the renewal: %d %s", status, says)
	}
	s.Close(t.Context())
}
