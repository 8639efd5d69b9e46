package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestErrorsOfCertificatesSayWhatToDo reaches servers whose root the command trusts, and whose certificate it refuses.
func TestErrorsOfCertificatesSayWhatToDo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		address string // in the certificate
		ends    time.Duration
		says    string
	}{
		"expired":             {"127.0.0.1", -time.Hour, "set the clock of this machine"},
		"not yet valid":       {"127.0.0.1", 48 * time.Hour, "set the clock of this machine"},
		"for another address": {"127.0.0.2", time.Hour, "use a name or address of the certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, url := servingWith(t, c.address, time.Now().Add(c.ends))
			a := corvo(t, []string{"CORVO_ENDPOINT=" + url, "CORVO_CLOUD_TOKEN=t", "SSL_CERT_FILE=" + root}, "cloud", "hosts")
			if a.code != 1 || !strings.Contains(a.stderr, c.says) {
				t.Errorf("%d %s%s, want 1 with %q", a.code, a.stdout, a.stderr, c.says)
			}
		})
	}
}

// servingWith serves TLS on loopback with a certificate for an address that is valid for a day until ends. It returns the
// file with the certificate in PEM, and the URL.
func servingWith(t *testing.T, address string, ends time.Time) (root, url string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.ParseIP(address)}, NotBefore: ends.Add(-24 * time.Hour), NotAfter: ends,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	root = filepath.Join(t.TempDir(), "root.pem")
	if err := os.WriteFile(root, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return root, s.URL
}
