package certificate_test

import (
	"crypto/rand"
	"crypto/x509"
	"math/big"
	"net/url"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet/certificate"
)

func TestIdentitiesHaveOneSpelling(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("x", certificate.MaxName)
	for uri, want := range map[string]certificate.Identity{
		"corvo://fleet/control-plane/control-1":         plane,
		"corvo://fleet/gateway/gw_1":                    gateway,
		"corvo://fleet/host/host_1/store_1":             host,
		"corvo://fleet/gateway/" + longest:              {Kind: certificate.Gateway, ID: longest},
		"corvo://fleet/host/" + longest + "/" + longest: {Kind: certificate.Host, ID: longest, Store: longest},
	} {
		got, err := certificate.ParseIdentity(uri)
		if err != nil || got != want || got.String() != uri {
			t.Errorf("%s is %+v, %v, want %+v", uri, got, err, want)
		}
	}
	for _, uri := range []string{
		"", "corvo://fleet/", "corvo://fleet/host", "corvo://fleet/host/", "corvo://fleet/gateway/gw_1/", "corvo://fleet/gateway//",
		"corvo://fleet/host/host_1", "corvo://fleet/host/host_1/", "corvo://fleet/host/host_1/store_1/", "corvo://fleet/host//store_1",
		"corvo://fleet/gateway/gw_1/store_1", "corvo://fleet/control-plane/control-1/store_1", "corvo://fleet/root/x",
		"corvo://fleet/Host/host_1/store_1", "CORVO://fleet/gateway/gw_1", "https://fleet/gateway/gw_1", "corvo://other/gateway/gw_1",
		"corvo://fleet/gateway/gw%5f1", "corvo://fleet/gateway/gw_1?x", "corvo://fleet/gateway/gw_1#x", "corvo://fleet/gateway/gw 1", "corvo://fleet/gateway/ü",
		"corvo://fleet/gateway/" + longest + "x", "corvo://fleet/host/host_1/" + longest + "x",
	} {
		_, err := certificate.ParseIdentity(uri)
		if api.CodeOf(err) != api.ValidationError {
			t.Errorf("%s is accepted, or refused with %v", uri, err)
		}
	}
}

// sign returns a certificate of the template for the key of a seed. The root's key signs it, so that the certificate may
// have fields that Issue never writes.
func sign(t *testing.T, root *certificate.Root, template *x509.Certificate, seed byte) []byte {
	t.Helper()
	ca, err := x509.ParseCertificate(root.DER())
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, keyOf(seed).Public(), keyOfRoot(root))
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// TestOnlyTheControlPlaneHasNames checks that a root issues names only for the control plane. It also checks
// that NewMember refuses a host's or gateway's certificate with names even if the root's key signed it.
func TestOnlyTheControlPlaneHasNames(t *testing.T) {
	t.Parallel()
	root := newRoot(t, start)
	ours := bundleOf(t, root)
	request, err := certificate.NewRequest(keyOf('a'))
	if err != nil {
		t.Fatal(err)
	}
	der, err := root.Issue(request, plane, []string{"control.test", "10.0.0.7", "::1"}, start, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	m, err := certificate.NewMember(keyOf('a'), der, ours)
	if err != nil || m.Identity != plane {
		t.Errorf("with names the control plane is %+v: %v", m, err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	if len(leaf.DNSNames) != 1 || len(leaf.IPAddresses) != 2 {
		t.Errorf("the certificate is for %v and %v", leaf.DNSNames, leaf.IPAddresses)
	}
	for _, who := range []certificate.Identity{host, gateway} {
		_, err := root.Issue(request, who, []string{"control.test"}, start, rand.Reader)
		refused(t, err, api.ValidationError, "cannot be for names")
		uri, err := url.Parse(who.String())
		if err != nil {
			t.Fatal(err)
		}
		forged := &x509.Certificate{SerialNumber: big.NewInt(1), URIs: []*url.URL{uri}, DNSNames: []string{"control.test"}, NotAfter: start.Add(certificate.Life)}
		_, err = certificate.NewMember(keyOf('a'), sign(t, root, forged, 'a'), ours)
		refused(t, err, api.Unauthorized, "is also for other names")
	}
}
