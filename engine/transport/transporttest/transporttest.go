// Package transporttest creates identities for tests that use a transport. It may import engine/transport.
package transporttest

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/engine/transport"
)

// Identities creates a certificate authority and an identity for each node. They trust each other and nobody
// else.
func Identities(names ...string) map[string]transport.Identity {
	a := NewAuthority()
	all := make(map[string]transport.Identity, len(names))
	for _, name := range names {
		all[name] = a.Identity(name)
	}
	return all
}

// Authority signs certificates and may be used from any goroutine. The certificates are valid from 1999, so
// that they are valid in testing/synctest, whose clock begins in 2000.
type Authority struct {
	certificate *x509.Certificate
	key         ed25519.PrivateKey
	pool        *x509.CertPool
	serial      atomic.Int64
}

var (
	from = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)
	to   = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

// NewAuthority creates a new authority.
func NewAuthority() *Authority {
	a := &Authority{pool: x509.NewCertPool()}
	template := a.template("authority", to)
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	public, key := newKey()
	a.key = key
	a.certificate = a.sign(template, template, public)
	a.pool.AddCert(a.certificate)
	return a
}

// Identity returns an identity for a node, valid for longer than any test.
func (a *Authority) Identity(name string) transport.Identity { return a.IdentityUntil(name, to) }

// IdentityUntil returns an identity for a node, valid until the given time.
func (a *Authority) IdentityUntil(name string, until time.Time) transport.Identity {
	template := a.template(name, until)
	template.DNSNames = []string{name}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	public, key := newKey()
	leaf := a.sign(template, a.certificate, public)
	return identity{tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}, a.pool}
}

func (a *Authority) template(name string, until time.Time) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(a.serial.Add(1)), Subject: pkix.Name{CommonName: name}, NotBefore: from, NotAfter: until,
	}
}

func (a *Authority) sign(template, parent *x509.Certificate, public ed25519.PublicKey) *x509.Certificate {
	der := must(x509.CreateCertificate(rand.Reader, template, parent, public, a.key))
	return must(x509.ParseCertificate(der))
}

func newKey() (ed25519.PublicKey, ed25519.PrivateKey) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	must(public, err)
	return public, private
}

// must panics on an error, which only a mistake in this file can cause.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

type identity struct {
	certificate tls.Certificate
	pool        *x509.CertPool
}

func (i identity) Server() *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{i.certificate}, ClientCAs: i.pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}
}

// NodeID returns the common name.
func (i identity) NodeID(c *x509.Certificate) string { return c.Subject.CommonName }

// Client does not check the peer's name if peerID is "". crypto/tls can skip only the whole verification, so
// VerifyConnection then verifies the certificate without the name.
func (i identity) Client(peerID string) *tls.Config {
	c := &tls.Config{Certificates: []tls.Certificate{i.certificate}, RootCAs: i.pool, ServerName: peerID}
	if peerID == "" {
		c.InsecureSkipVerify = true
		c.VerifyConnection = func(s tls.ConnectionState) error {
			_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: i.pool})
			return err
		}
	}
	return c
}
