package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/tenancy/keyring"
)

// TestTheGatewayServesTLS runs the binary with certificate files and sends a request that verifies the certificate.
func TestTheGatewayServesTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, kind string, text []byte) (path string) {
		path = filepath.Join(dir, name)
		if kind != "" {
			text = pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: text})
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, "the gateway listens on https://", "gateway", "--insecure", "--bind", "127.0.0.1:0", "--data-dir", filepath.Join(dir, "data"),
		"--control-plane", "http://127.0.0.1:1", "--credential-file", file("credential", "", []byte(gatewayCredential(t))),
		"--tls-cert-file", file("tls.crt", "CERTIFICATE", der), "--tls-key-file", file("tls.key", "PRIVATE KEY", key))
	_, url, _ := strings.Cut(p.Greeting[len(p.Greeting)-1], "listens on ")
	roots := x509.NewCertPool()
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots.AddCert(made)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	answer, err := client.Get(url + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK || answer.ProtoMajor != 2 {
		t.Errorf("the gateway answers %s over %s", answer.Status, answer.Proto)
	}
}

// gatewayCredential returns a credential of the right form that no control plane knows.
func gatewayCredential(t *testing.T) string {
	t.Helper()
	credential, _, _, err := keyring.New(rand.Reader, keyring.Gateway)
	if err != nil {
		t.Fatal(err)
	}
	return credential
}
