package certificate

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"slices"
	"strings"

	"github.com/corvo/corvo/api"
)

// MaxRoots is the largest number of roots in a bundle: the root that signs, and its predecessor or successor.
const MaxRoots = 2

// Bundle is the set of roots that members trust. It never changes. The zero Bundle trusts nobody.
type Bundle struct {
	roots []*x509.Certificate // oldest first
}

// NewBundle returns the bundle of 1 to MaxRoots different roots. Their certificates are in DER, the oldest
// first. Every error is a VALIDATION_ERROR.
func NewBundle(ders ...[]byte) (Bundle, error) {
	if len(ders) == 0 || len(ders) > MaxRoots {
		return Bundle{}, api.Errorf(api.ValidationError, "a bundle has 1 to %d roots, not %d", MaxRoots, len(ders))
	}
	var b Bundle
	for _, der := range ders {
		root, err := parseRoot(der)
		if err != nil {
			return Bundle{}, err
		}
		if b.find(der) != nil {
			return Bundle{}, api.Errorf(api.ValidationError, "the bundle has the root %s twice", fingerprint(root))
		}
		b.roots = append(b.roots, root)
	}
	return b, nil
}

// find returns the root with a certificate in DER, or nil.
func (b Bundle) find(der []byte) *x509.Certificate {
	for _, root := range b.roots {
		if bytes.Equal(root.Raw, der) {
			return root
		}
	}
	return nil
}

// Fingerprints returns the fingerprints of the roots, the oldest first.
func (b Bundle) Fingerprints() []string {
	all := make([]string, len(b.roots))
	for i, root := range b.roots {
		all[i] = fingerprint(root)
	}
	return all
}

// String returns the fingerprints of the roots.
func (b Bundle) String() string { return strings.Join(b.Fingerprints(), " and ") }

// Equal reports whether two bundles have the same roots in the same order.
func (b Bundle) Equal(other Bundle) bool { return slices.Equal(b.Fingerprints(), other.Fingerprints()) }

// MarshalJSON encodes the bundle as a list of its certificates, each in base64 of DER, as the member x5c of a
// JSON Web Key is.
func (b Bundle) MarshalJSON() ([]byte, error) {
	ders := make([][]byte, len(b.roots))
	for i, root := range b.roots {
		ders[i] = root.Raw
	}
	return json.Marshal(ders)
}

// UnmarshalJSON decodes the output of MarshalJSON and checks every root. It refuses an empty list, which is
// the form of the zero Bundle. Every error is a VALIDATION_ERROR. After an error b is unchanged.
func (b *Bundle) UnmarshalJSON(text []byte) error {
	var ders [][]byte
	if err := json.Unmarshal(text, &ders); err != nil {
		return api.Wrap(err, api.ValidationError, "the bundle is not a list of certificates in base64")
	}
	made, err := NewBundle(ders...)
	if err == nil {
		*b = made
	}
	return err
}

// PEM returns the roots in PEM, for programs that verify by a file with roots.
func (b Bundle) PEM() (text []byte) {
	for _, root := range b.roots {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: certBlock, Bytes: root.Raw})...)
	}
	return text
}

// pool returns the roots for x509.
func (b Bundle) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	for _, root := range b.roots {
		pool.AddCert(root)
	}
	return pool
}

// issuer returns the root that signed a certificate, or nil.
func (b Bundle) issuer(c *x509.Certificate) *x509.Certificate {
	for _, root := range b.roots {
		if c.CheckSignatureFrom(root) == nil {
			return root
		}
	}
	return nil
}
