package cluster

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"sync"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/transport"
)

// authorityContext separates this use of the secret from later ones. Tokens depend on it, so it must never
// change.
const authorityContext = "corvo cluster authority v1"

// memberName is the DNS name in every member's certificate. It marks a certificate as a member's; the common
// name identifies the member.
const memberName = "member.cluster.corvo.internal"

// A member issues its own short-lived certificate and renews it before it ends. The validity tolerates much
// larger clock differences than engine.MaxSkew.
const (
	certificateLife = 24 * time.Hour
	certificateSlew = time.Hour
)

// authority is the cluster's certificate authority. Every member derives the same one from the secret, so
// that no certificate has to be transferred.
type authority struct {
	key  ed25519.PrivateKey
	cert *x509.Certificate
	pool *x509.CertPool
}

// newAuthority derives the authority. It uses nothing but the secret and fixed dates, because the result must
// be the same to the byte on all members; an Ed25519 signature ignores rand.Reader.
func newAuthority(key []byte) (*authority, error) {
	seed, err := hkdf.Key(sha256.New, key, nil, authorityContext, ed25519.SeedSize)
	if err != nil {
		return nil, fmt.Errorf("derive the cluster's authority: %w", err)
	}
	a := &authority{key: ed25519.NewKeyFromSeed(seed), pool: x509.NewCertPool()}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "corvo cluster"},
		NotBefore:             time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:              time.Date(2120, 1, 1, 0, 0, 0, 0, time.UTC),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("make the cluster's authority: %w", err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("make the cluster's authority: %w", err)
	}
	a.pool.AddCert(a.cert)
	return a, nil
}

// fingerprint returns the SHA-256 of the authority's certificate, in hexadecimal.
func (a *authority) fingerprint() string {
	sum := sha256.Sum256(a.cert.Raw)
	return hex.EncodeToString(sum[:])
}

// issue creates a member's certificate for the key of its data directory.
func (a *authority) issue(nodeID string, private ed25519.PrivateKey, now time.Time) (*tls.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: nodeID},
		DNSNames:     []string{memberName},
		NotBefore:    now.Add(-certificateSlew),
		NotAfter:     now.Add(certificateLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, private.Public(), a.key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private, Leaf: leaf}, nil
}

// identity is this node's side of mutual TLS.
type identity struct {
	authority *authority
	nodeID    string
	key       ed25519.PrivateKey
	now       func() time.Time

	mu      sync.Mutex
	current *tls.Certificate // nil until the first handshake
}

var _ transport.Identity = (*identity)(nil)

func newIdentity(s secret, nodeID string, key ed25519.PrivateKey, now func() time.Time) (*identity, error) {
	a, err := newAuthority(s.key)
	if err != nil {
		return nil, err
	}
	return &identity{authority: a, nodeID: nodeID, key: key, now: now}, nil
}

// certificate returns the current certificate, and renews it after half of its life. Open connections keep
// the old one.
func (i *identity) certificate() (*tls.Certificate, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.now()
	if c := i.current; c != nil && now.Before(c.Leaf.NotAfter.Add(-certificateLife/2)) && now.After(c.Leaf.NotBefore) {
		return c, nil
	}
	made, err := i.authority.issue(i.nodeID, i.key, now)
	if err != nil {
		return nil, fmt.Errorf("make this node's certificate: %w", err)
	}
	i.current = made
	return made, nil
}

// Server returns the configuration of accepted connections, which must come from members.
func (i *identity) Server() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS13,
		Time:           i.now,
		ClientAuth:     tls.RequireAnyClientCert,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return i.certificate() },
		VerifyConnection: func(s tls.ConnectionState) error {
			return i.verify(s, x509.ExtKeyUsageClientAuth, "")
		},
		SessionTicketsDisabled: true, // a resumed session would not be checked again
	}
}

// Client returns the configuration of dialled connections. The answering process must be a member and, unless
// peerID is "", the one with that ID.
func (i *identity) Client(peerID string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		Time:       i.now,
		ServerName: memberName,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return i.certificate()
		},
		// VerifyConnection makes all standard checks, and its errors tell an operator that the secrets
		// differ.
		InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			return i.verify(s, x509.ExtKeyUsageServerAuth, peerID)
		},
	}
}

// NodeID returns the common name of a member's certificate.
func (i *identity) NodeID(c *x509.Certificate) string { return c.Subject.CommonName }

// verify checks that the other side is a member: its certificate is signed by the cluster's authority, for
// the given use, valid now, and, unless peerID is "", issued to that node.
func (i *identity) verify(s tls.ConnectionState, use x509.ExtKeyUsage, peerID string) error {
	if len(s.PeerCertificates) == 0 {
		return api.Errorf(api.Unauthorized, "the other side showed no certificate: it is no member of a cluster")
	}
	leaf := s.PeerCertificates[0]
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: i.authority.pool, CurrentTime: i.now(), DNSName: memberName, KeyUsages: []x509.ExtKeyUsage{use},
	})
	if err != nil {
		var invalid x509.CertificateInvalidError
		if errors.As(err, &invalid) && invalid.Reason == x509.Expired {
			return api.Errorf(api.Unauthorized, "the certificate of node %q is not valid now: set the clocks of both machines (%w)", leaf.Subject.CommonName, err)
		}
		return api.Errorf(api.Unauthorized, "the other side has another join token: give all nodes of a cluster the same one (%w)", err)
	}
	switch name := i.NodeID(leaf); {
	case name == "":
		return api.Errorf(api.Unauthorized, "the other side's certificate names no node")
	case peerID != "" && name != peerID:
		return api.Errorf(api.Unauthorized, "node %q answers where node %q was expected: has its address been given to another?", name, peerID)
	}
	return nil
}
