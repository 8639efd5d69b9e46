package server

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/certificate"
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
		body, err := json.Marshal(wire.JoinRequest{CSR: csr})
		if err != nil {
			t.Fatal(err)
		}
		a := f.send("POST", wire.JoinPath, gatewayCredential, string(body))
		if p := a.problem(t); a.status != http.StatusBadRequest || p.Code != api.ValidationError || !strings.Contains(p.Error, name) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
}
