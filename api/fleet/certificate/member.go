package certificate

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"time"

	"github.com/corvo/corvo/api"
)

// Member is a member's key and certificate, and the bundle that it trusts. It never changes.
type Member struct {
	Identity Identity
	Bundle   Bundle
	key      ed25519.PrivateKey
	leaf     *x509.Certificate
}

// NewMember checks that a certificate in DER names a member of the fleet and is for the key, and that the
// bundle has a root. It does not check whether the bundle and the time allow the certificate's use, because a
// member with an expired certificate renews it.
func NewMember(key ed25519.PrivateKey, der []byte, bundle Bundle) (*Member, error) {
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, api.Wrap(err, api.ValidationError, "the member's certificate is damaged")
	}
	identity, err := identityOf(leaf)
	if err != nil {
		return nil, err
	}
	if !key.Public().(ed25519.PublicKey).Equal(leaf.PublicKey) {
		return nil, api.Errorf(api.ValidationError, "the certificate of %s is not for the key of this member", identity)
	}
	if len(bundle.roots) == 0 {
		return nil, api.Errorf(api.ValidationError, "the certificate of %s comes without a root", identity)
	}
	return &Member{Identity: identity, Bundle: bundle, key: key, leaf: leaf}, nil
}

// Ends returns the time at which the certificate expires.
func (m *Member) Ends() time.Time { return m.leaf.NotAfter }

// issuer returns the fingerprint of the root that issued the certificate, or "" if that root has left the bundle.
func (m *Member) issuer() string {
	if root := m.Bundle.issuer(m.leaf); root != nil {
		return fingerprint(root)
	}
	return ""
}

// Stage is the stage of a certificate's life.
type Stage string

// These are the stages, in their order.
const (
	NotYetValid Stage = "not yet valid"
	Fresh       Stage = "fresh"
	RenewalDue  Stage = "renewal due" // about RenewAfter old
	Alarm       Stage = "alarm"       // less than AlarmBefore is left
	Expired     Stage = "expired"
)

// StageAt returns the stage of the certificate's life at a time.
func (m *Member) StageAt(now time.Time) Stage {
	switch left := m.leaf.NotAfter.Sub(now); {
	case now.Before(m.leaf.NotBefore):
		return NotYetValid
	case left < 0:
		return Expired
	case left < AlarmBefore:
		return Alarm
	case left <= Life-RenewAfter+m.jitter():
		return RenewalDue
	}
	return Fresh
}

// jitter returns by how much the renewal is early, less than RenewSpread. It derives from the random serial
// number, so that it stays the same after a restart. The number may have any length, because x509 parses numbers
// that are longer than RFC 5280 allows.
func (m *Member) jitter() time.Duration {
	return time.Duration(new(big.Int).Mod(m.leaf.SerialNumber, big.NewInt(int64(RenewSpread))).Int64())
}

// needsRenewal reports whether the member should ask for a new certificate at a time: in every stage but
// Fresh, and also if the root of the certificate has left the bundle, because other members then refuse the
// certificate.
func (m *Member) needsRenewal(now time.Time) bool {
	return m.StageAt(now) != Fresh || m.Bundle.issuer(m.leaf) == nil
}

// tls returns the certificate for handshakes. The root that issued it follows in the chain, because a member
// that joins knows only the root's fingerprint.
func (m *Member) tls() *tls.Certificate {
	c := &tls.Certificate{Certificate: [][]byte{m.leaf.Raw}, PrivateKey: m.key, Leaf: m.leaf}
	if root := m.Bundle.issuer(m.leaf); root != nil {
		c.Certificate = append(c.Certificate, root.Raw)
	}
	return c
}
