package certificate

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
)

// These are the times of certificates. ADR 0068 gives the reasons.
const (
	// Life is the time from the issue of a member's certificate to its end.
	Life = 7 * 24 * time.Hour
	// RenewAfter is the greatest age at which a member begins to renew its certificate. Members begin up to
	// RenewSpread earlier, so that members that joined at the same time do not go on renewing at the same
	// time.
	RenewAfter  = 12 * time.Hour
	RenewSpread = time.Hour
	// AlarmBefore is the remaining life of a certificate below which the member raises an alarm.
	AlarmBefore = 3 * 24 * time.Hour
	// Slew is how long before its issue a certificate is already valid, because clocks differ.
	Slew = 5 * time.Minute
	// RootLife is the life of a root.
	RootLife = 10 * 365 * 24 * time.Hour
)

// MaxRequestBytes is the size of the largest certificate signing request that Issue accepts.
const MaxRequestBytes = 4 << 10

// Root is a root of the authority with its key. It never changes.
type Root struct {
	key  ed25519.PrivateKey
	cert *x509.Certificate
}

// NewRoot makes a root. An error comes from random.
func NewRoot(now time.Time, random io.Reader) (*Root, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(random, seed); err != nil {
		return nil, fmt.Errorf("random bits for a root: %w", err)
	}
	serial, err := newSerial(random)
	if err != nil {
		return nil, err
	}
	key := ed25519.NewKeyFromSeed(seed)
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: "corvo fleet"},
		NotBefore:             now.Add(-Slew),
		NotAfter:              now.Add(RootLife),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(random, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make a root: %w", err)
	}
	return OpenRoot(seed, der)
}

// OpenRoot returns the root with the seed of its key and its certificate in DER, as Seed and DER return them.
func OpenRoot(seed, der []byte) (*Root, error) {
	if len(seed) != ed25519.SeedSize {
		return nil, api.Errorf(api.ValidationError, "the seed of a root has %d bytes, not %d", len(seed), ed25519.SeedSize)
	}
	cert, err := parseRoot(der)
	if err != nil {
		return nil, err
	}
	r := &Root{key: ed25519.NewKeyFromSeed(seed), cert: cert}
	if !r.key.Public().(ed25519.PublicKey).Equal(cert.PublicKey) {
		return nil, api.Errorf(api.ValidationError, "the certificate of a root is not for its key")
	}
	return r, nil
}

// parseRoot parses the certificate of a root and checks that it is one.
func parseRoot(der []byte) (*x509.Certificate, error) {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, api.Wrap(err, api.ValidationError, "the certificate of a root is damaged")
	}
	if _, ok := cert.PublicKey.(ed25519.PublicKey); !ok || !cert.IsCA {
		return nil, api.Errorf(api.ValidationError, "the certificate is not that of a root with an Ed25519 key")
	}
	if err := cert.CheckSignatureFrom(cert); err != nil {
		return nil, api.Wrap(err, api.ValidationError, "the certificate of a root is not signed with its own key")
	}
	return cert, nil
}

// Seed returns the seed of the root's key, which is a secret.
func (r *Root) Seed() []byte { return r.key.Seed() }

// DER returns the root's certificate in DER. The caller must not change it.
func (r *Root) DER() []byte { return r.cert.Raw }

// Fingerprint returns the SHA-256 of the root's certificate in hexadecimal, the value of --fleet-root.
func (r *Root) Fingerprint() string { return fingerprint(r.cert) }

func fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:])
}

// ParseFingerprint parses a fingerprint in hexadecimal and returns it in the form of Fingerprint. It accepts
// upper case and colons, because other programs print fingerprints so.
func ParseFingerprint(s string) (string, error) {
	sum, err := hex.DecodeString(strings.ReplaceAll(s, ":", ""))
	if err != nil || len(sum) != sha256.Size {
		return "", api.Errorf(api.ValidationError, "%s is not the SHA-256 of a root: copy the %d hexadecimal digits that the control plane prints", text.Quote(s), 2*sha256.Size)
	}
	return hex.EncodeToString(sum), nil
}

// NewRequest returns a certificate signing request for a key, in DER. The request names nobody, because the
// control plane knows from the credential whose certificate it issues.
func NewRequest(key ed25519.PrivateKey) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(nil, &x509.CertificateRequest{}, key) // Ed25519 needs no randomness
	if err != nil {
		return nil, fmt.Errorf("make a certificate signing request: %w", err)
	}
	return der, nil
}

// Issue issues a certificate in DER to a member, for the public key of a request. It ignores everything else
// in the request, but the request must be signed with that key. The certificate is valid for Life from now. A
// bad request or identity is a VALIDATION_ERROR.
//
// names are DNS names and IP addresses. Only the certificate of a process of the control plane may have them.
// The programs of operators are no members and verify a server by its name. Members ignore the names.
func (r *Root) Issue(request []byte, member Identity, names []string, now time.Time, random io.Reader) (der []byte, err error) {
	key, err := requestKey(request)
	if err != nil {
		return nil, err
	}
	name, err := member.url()
	if err != nil {
		return nil, err
	}
	serial, err := newSerial(random)
	if err != nil {
		return nil, err
	}
	if len(names) > 0 && member.Kind != ControlPlane {
		return nil, api.Errorf(api.ValidationError, "the certificate of %s cannot be for names: only that of a %s is", member, ControlPlane)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		URIs:         []*url.URL{name},
		NotBefore:    now.Add(-Slew),
		NotAfter:     now.Add(Life),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	if der, err = x509.CreateCertificate(random, template, r.cert, key, r.key); err != nil {
		return nil, fmt.Errorf("issue a certificate to %s: %w", member, err)
	}
	return der, nil
}

// requestKey returns the public key of a request whose signature proves that the sender has the private key.
func requestKey(request []byte) (ed25519.PublicKey, error) {
	if len(request) > MaxRequestBytes {
		return nil, api.Errorf(api.ValidationError, "the certificate signing request has %d bytes: at most %d", len(request), MaxRequestBytes)
	}
	parsed, err := x509.ParseCertificateRequest(request)
	if err != nil {
		return nil, api.Wrap(err, api.ValidationError, "the certificate signing request is damaged")
	}
	key, ok := parsed.PublicKey.(ed25519.PublicKey)
	if !ok {
		return nil, api.Errorf(api.ValidationError, "the certificate signing request is for a key of the kind %v: only Ed25519 is accepted", parsed.PublicKeyAlgorithm)
	}
	if err := parsed.CheckSignature(); err != nil {
		return nil, api.Wrap(err, api.ValidationError, "the certificate signing request is not signed with the key that it is for")
	}
	return key, nil
}

// newSerial returns a random serial number, never 0, because x509 would replace 0 by a number of its own.
func newSerial(random io.Reader) (*big.Int, error) {
	bits := make([]byte, 16)
	if _, err := io.ReadFull(random, bits); err != nil {
		return nil, fmt.Errorf("random bits for a serial number: %w", err)
	}
	bits[0] = bits[0]&0x7f | 0x40 // positive, and of one length
	return new(big.Int).SetBytes(bits), nil
}
