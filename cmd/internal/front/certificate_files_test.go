package front

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// pair is a certificate for queue.test and its key, in PEM.
type pair struct {
	serial    int64
	cert, key []byte
}

func newPair(t *testing.T, serial int64) pair {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), DNSNames: []string{"queue.test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pair{serial, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})}
}

// replace replaces a file as a whole, so that it is another file even within the resolution of its times.
func replace(t *testing.T, path string, text []byte) {
	t.Helper()
	err := os.WriteFile(path+".new", text, 0o600)
	if err = errors.Join(err, os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
}

// TestTheCertificateIsReadAgainWhenItChanges replaces the two files one after the other, damages one and removes it.
func TestTheCertificateIsReadAgainWhenItChanges(t *testing.T) {
	t.Parallel()
	certFile, keyFile := filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")
	first, second := newPair(t, 1), newPair(t, 2)
	replace(t, certFile, first.cert)
	replace(t, keyFile, first.key)
	log := new(bytes.Buffer)
	c, err := OpenCertificate(certFile, keyFile, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	// expect compares the certificate in use, and the lines that the log has got.
	expect := func(after string, serial int64, lines int, says string) {
		t.Helper()
		for range 2 { // the second look must not try or log again
			got, err := c.Config().GetCertificate(nil)
			if err != nil || got.Leaf.SerialNumber.Int64() != serial {
				t.Fatalf("%s: certificate %v, %v, want %d", after, got.Leaf.SerialNumber, err, serial)
			}
		}
		if n := strings.Count(log.String(), "\n"); n != lines || !strings.Contains(log.String(), says) {
			t.Errorf("%s: %d log lines, want %d with %q: %s", after, n, lines, says, log)
		}
		log.Reset()
	}
	expect("the start", 1, 0, "")
	replace(t, certFile, second.cert)
	expect("a new certificate with the old key", 1, 1, "cannot be used")
	replace(t, keyFile, second.key)
	expect("the new key", 2, 1, "is in use")
	replace(t, certFile, second.cert[:len(second.cert)/2])
	expect("half of a file", 2, 1, "cannot be used")
	if err := os.Remove(certFile); err != nil {
		t.Fatal(err)
	}
	expect("a missing file", 2, 1, "no such file")
	replace(t, certFile, first.cert)
	replace(t, keyFile, first.key)
	expect("both files at once", 1, 1, "is in use")
}

func TestACertificateThatCannotBeLoadedIsAnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	refused := func(name string) {
		t.Helper()
		_, err := OpenCertificate(certFile, keyFile, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want an error with %s", err, name)
		}
	}
	refused(certFile)
	replace(t, certFile, newPair(t, 1).cert)
	refused(keyFile)
	replace(t, keyFile, newPair(t, 2).key)
	refused(certFile)
}

// TestTLS sends requests over HTTP/1.1 and HTTP/2 to a front with a certificate.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	made := newPair(t, 1)
	replace(t, certFile, made.cert)
	replace(t, keyFile, made.key)
	c, err := OpenCertificate(certFile, keyFile, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) })
	addr := serving(t, Config{TLS: c.Config(), Handler: handler})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(made.cert)
	for proto, enable := range map[string]func(*http.Protocols){
		"HTTP/1.1": func(p *http.Protocols) { p.SetHTTP1(true) },
		"HTTP/2.0": func(p *http.Protocols) { p.SetHTTP2(true) },
	} {
		protocols := new(http.Protocols)
		enable(protocols)
		transport := &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots}, Protocols: protocols,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", addr)
			},
		}
		answer, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Get("https://queue.test/")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil || string(body) != proto {
			t.Errorf("%s arrives as %s, %v", proto, body, err)
		}
		answer.Body.Close()
		transport.CloseIdleConnections()
	}
	if got := (Config{TLS: c.Config()}).URL(&net.TCPAddr{Port: 443}); got != "https://127.0.0.1:443" {
		t.Errorf("the URL is %s", got)
	}
}

// TestPlainHTTPToTLS sends plain HTTP to a front with TLS. net/http itself would answer some of these methods in words
// that no client of ours can decode, and not answer the others.
func TestPlainHTTPToTLS(t *testing.T) {
	t.Parallel()
	made := newPair(t, 1)
	certificate, err := tls.X509KeyPair(made.cert, made.key)
	if err != nil {
		t.Fatal(err)
	}
	addr := serving(t, Config{MaxConnections: 100, TLS: &tls.Config{Certificates: []tls.Certificate{certificate}}})
	c, err := client.New("http://"+addr, "key", client.WithRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	large := strings.Repeat("x", plainBytes/2)
	for name, send := range map[string]func() error{
		"GET":    func() error { _, err := c.Info(t.Context()); return err },
		"POST":   func() error { _, err := c.Enqueue(t.Context(), api.EnqueueRequest{Queue: large}); return err },
		"DELETE": func() error { return c.RevokeKey(t.Context(), "key", 0) },
	} {
		if err := send(); api.CodeOf(err) != api.ValidationError || !strings.Contains(err.Error(), "this port speaks HTTPS") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, text := range []string{request, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"} {
		plain := dial(t, addr)
		write(t, plain, text)
		if got, err := io.ReadAll(plain); err != nil || !strings.Contains(string(got), "this port speaks HTTPS") {
			t.Errorf("%q is answered %q, %v", text, got, err)
		}
	}
}

// TestAConnectionTooManyIsClosedWithTLS expects no plain text from a front with TLS.
func TestAConnectionTooManyIsClosedWithTLS(t *testing.T) {
	t.Parallel()
	made := newPair(t, 1)
	certificate, err := tls.X509KeyPair(made.cert, made.key)
	if err != nil {
		t.Fatal(err)
	}
	addr := serving(t, Config{MaxConnections: 1, TLS: &tls.Config{Certificates: []tls.Certificate{certificate}}})
	first := tls.Client(dial(t, addr), &tls.Config{InsecureSkipVerify: true})
	if err := first.Handshake(); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(dial(t, addr)); err != nil || len(text) > 0 {
		t.Errorf("a connection too many gets %q, %v", text, err)
	}
}
