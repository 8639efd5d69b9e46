package certificate_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet/certificate"
)

// TestOnlyTheKeyOfARequestIsCopied checks that a root copies only the key of a signing request that also asks
// for a CA and for names.
func TestOnlyTheKeyOfARequestIsCopied(t *testing.T) {
	t.Parallel()
	constraints, err := asn1.Marshal(struct{ IsCA bool }{true})
	if err != nil {
		t.Fatal(err)
	}
	key := keyOf('a')
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:     pkix.Name{CommonName: "root", Organization: []string{"evil"}},
		DNSNames:    []string{"cloud.example.com"},
		IPAddresses: []net.IP{{127, 0, 0, 1}},
		URIs:        []*url.URL{{Scheme: "corvo", Host: "fleet", Path: "/control-plane/control-1"}},
		ExtraExtensions: []pkix.Extension{
			{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: constraints},
			{Id: asn1.ObjectIdentifier{1, 2, 3}, Value: []byte{5, 0}},
		},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := newRoot(t, start).Issue(request, gateway, nil, start, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	if !key.Public().(ed25519.PublicKey).Equal(c.PublicKey) {
		t.Error("the certificate is not for the key of the request")
	}
	if c.IsCA || c.KeyUsage != x509.KeyUsageDigitalSignature {
		t.Error("the certificate can sign others")
	}
	if len(c.URIs) != 1 || c.URIs[0].String() != gateway.String() || len(c.DNSNames)+len(c.IPAddresses)+len(c.Subject.Names) > 0 {
		t.Errorf("the certificate has the names %v %v %v %v", c.URIs, c.DNSNames, c.IPAddresses, c.Subject)
	}
	if slices.ContainsFunc(c.Extensions, func(e pkix.Extension) bool { return e.Id.Equal(asn1.ObjectIdentifier{1, 2, 3}) }) {
		t.Error("an extension of the request was copied")
	}
	if want := start.Add(-certificate.Slew); !c.NotBefore.Equal(want) {
		t.Errorf("valid from %v, want %v", c.NotBefore, want)
	}
	if want := start.Add(certificate.Life); !c.NotAfter.Equal(want) {
		t.Errorf("valid until %v, want %v", c.NotAfter, want)
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	t.Parallel()
	root := newRoot(t, start)
	good, err := certificate.NewRequest(keyOf('a'))
	if err != nil {
		t.Fatal(err)
	}
	forged := slices.Clone(good)
	forged[len(forged)-1] ^= 1 // in the signature
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, p256)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		request []byte
		part    string
	}{
		"empty":       {nil, "damaged"},
		"truncated":   {good[:len(good)-1], "damaged"},
		"forged":      {forged, "not signed with the key"},
		"another key": {other, "only Ed25519"},
		"at bound":    {make([]byte, certificate.MaxRequestBytes), "damaged"},
		"above bound": {make([]byte, certificate.MaxRequestBytes+1), "at most 4096"},
	} {
		_, err := root.Issue(c.request, gateway, nil, start, rand.Reader)
		if api.CodeOf(err) != api.ValidationError || !strings.Contains(err.Error(), c.part) {
			t.Errorf("%s: %v, want %q", name, err, c.part)
		}
	}
	for _, who := range []certificate.Identity{{}, {Kind: certificate.Host, ID: "host_1"}, {Kind: "root", ID: "x"}} {
		_, err := root.Issue(good, who, nil, start, rand.Reader)
		refused(t, err, api.ValidationError)
	}
	broken := errors.New("no randomness")
	if _, err := root.Issue(good, gateway, nil, start, iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Error("a certificate without randomness:", err)
	}
}

func TestRootsAreStoredAsSeedAndCertificate(t *testing.T) {
	t.Parallel()
	root, other := newRoot(t, start), newRoot(t, start)
	again, err := certificate.OpenRoot(root.Seed(), root.DER())
	if err != nil || again.Fingerprint() != root.Fingerprint() {
		t.Fatal("the root is not the one that was stored:", err)
	}
	_, err = certificate.OpenRoot(other.Seed(), root.DER())
	refused(t, err, api.ValidationError, "not for its key")
	_, err = certificate.OpenRoot(root.Seed()[1:], root.DER())
	refused(t, err, api.ValidationError, "31 bytes")
	_, err = certificate.OpenRoot(root.Seed(), root.DER()[1:])
	refused(t, err, api.ValidationError, "damaged")
	request, err := certificate.NewRequest(keyOf('a'))
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := root.Issue(request, gateway, nil, start, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, err = certificate.NewBundle(leaf)
	refused(t, err, api.ValidationError, "not that of a root")
}

func TestBundlesHaveOneOrTwoRoots(t *testing.T) {
	t.Parallel()
	a, b, c := newRoot(t, start), newRoot(t, start), newRoot(t, start)
	two := bundleOf(t, a, b)
	text, err := two.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var again certificate.Bundle
	if err := again.UnmarshalJSON(text); err != nil || !again.Equal(two) || again.Equal(bundleOf(t, a)) {
		t.Errorf("the bundle %s is read as %s, %v", two, again, err)
	}
	if got := two.Fingerprints(); got[0] != a.Fingerprint() || got[1] != b.Fingerprint() {
		t.Errorf("the fingerprints are %v", got)
	}
	_, err = certificate.NewBundle()
	refused(t, err, api.ValidationError, "not 0")
	_, err = certificate.NewBundle(a.DER(), b.DER(), c.DER())
	refused(t, err, api.ValidationError, "not 3")
	_, err = certificate.NewBundle(a.DER(), a.DER())
	refused(t, err, api.ValidationError, "twice")
	refused(t, again.UnmarshalJSON([]byte(`["AAAA"]`)), api.ValidationError, "damaged")
	refused(t, again.UnmarshalJSON([]byte(`[]`)), api.ValidationError, "not 0")
	refused(t, again.UnmarshalJSON([]byte(`"x"`)), api.ValidationError, "list")
	if !again.Equal(two) {
		t.Error("a refused text changed the bundle")
	}
}

func TestFingerprintsOfOtherProgramsAreRead(t *testing.T) {
	t.Parallel()
	want := newRoot(t, start).Fingerprint()
	pairs := slices.Collect(slices.Chunk([]byte(strings.ToUpper(want)), 2))
	var colons []string
	for _, p := range pairs {
		colons = append(colons, string(p))
	}
	for _, s := range []string{want, strings.ToUpper(want), strings.Join(colons, ":")} {
		if got, err := certificate.ParseFingerprint(s); err != nil || got != want {
			t.Errorf("%s is %s, %v", s, got, err)
		}
	}
	for _, s := range []string{"", want[1:], want[2:], want + "00", strings.Repeat("x", 64)} {
		_, err := certificate.ParseFingerprint(s)
		refused(t, err, api.ValidationError, "64 hexadecimal digits")
	}
}

func keyOfRoot(r *certificate.Root) ed25519.PrivateKey { return ed25519.NewKeyFromSeed(r.Seed()) }
