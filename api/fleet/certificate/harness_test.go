package certificate_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/engine/transport/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is the time at which most tests issue their certificates.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(now time.Time) func() time.Time { return func() time.Time { return now } }

// These are the members of the tests.
var (
	plane   = certificate.Identity{Kind: certificate.ControlPlane, ID: "control-1"}
	gateway = certificate.Identity{Kind: certificate.Gateway, ID: "gw_1"}
	host    = certificate.Identity{Kind: certificate.Host, ID: "host_1", Store: "store_1"}
)

func newRoot(t *testing.T, now time.Time) *certificate.Root {
	t.Helper()
	root, err := certificate.NewRoot(now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func bundleOf(t *testing.T, roots ...*certificate.Root) certificate.Bundle {
	t.Helper()
	var ders [][]byte
	for _, root := range roots {
		ders = append(ders, root.DER())
	}
	b, err := certificate.NewBundle(ders...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// open opens the holder of a member that has no certificate. The holder has a directory of its own.
func open(t *testing.T, who certificate.Identity, now func() time.Time, fleetRoot string) *certificate.Holder {
	t.Helper()
	h, err := certificate.Open(certificate.Config{
		Path: filepath.Join(t.TempDir(), "member.pem"), Kind: who.Kind, Store: who.Store, FleetRoot: fleetRoot, Now: now,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// renew gives the holder a certificate that the root issues now.
func renew(t *testing.T, h *certificate.Holder, who certificate.Identity, now time.Time, root *certificate.Root, bundle certificate.Bundle) {
	t.Helper()
	request, err := h.Request()
	if err != nil || request == nil {
		t.Fatalf("no request for %s: %v", who, err)
	}
	der, err := root.Issue(request, who, nil, now, rand.Reader)
	if err == nil {
		err = h.Accept(who.ID, der, bundle)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// join opens a holder and gives it a certificate that the root issued at start, whatever now returns.
func join(t *testing.T, who certificate.Identity, now func() time.Time, root *certificate.Root, bundle certificate.Bundle) *certificate.Holder {
	t.Helper()
	issued := start
	h := open(t, who, func() time.Time {
		if !issued.IsZero() {
			return issued
		}
		return now()
	}, "")
	renew(t, h, who, start, root, bundle)
	issued = time.Time{}
	return h
}

// shake makes a handshake in memory, exchanges a byte each way, and returns the errors of both sides.
func shake(server, client *tls.Config) (serverErr, clientErr error) {
	_, serverErr, clientErr = shakeState(server, client)
	return serverErr, clientErr
}

func shakeState(server, client *tls.Config) (state tls.ConnectionState, serverErr, clientErr error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	a, b, err := connection(ctx)
	if err != nil {
		return state, err, err
	}
	talk := func(c *tls.Conn, first bool) error {
		defer c.Close()
		if err := c.HandshakeContext(ctx); err != nil {
			return err
		}
		send := func() error { _, err := c.Write([]byte{1}); return err }
		receive := func() error { _, err := io.ReadFull(c, make([]byte, 1)); return err }
		if first {
			return errors.Join(send(), receive())
		}
		return errors.Join(receive(), send())
	}
	done := make(chan error, 1)
	serving := tls.Server(a, server)
	go func() { done <- talk(serving, false) }()
	clientErr = talk(tls.Client(b, client), true)
	serverErr = <-done
	return serving.ConnectionState(), serverErr, clientErr
}

// connection returns the ends of a connection in memory. The connection has buffers, because both sides may send an
// alert at once.
func connection(ctx context.Context) (a, b net.Conn, err error) {
	network := memnet.New()
	l, err := network.Listen("server", 1)
	if err != nil {
		return nil, nil, err
	}
	if b, err = network.Dialer("client")(ctx, "server:1"); err == nil {
		a, err = l.Accept()
	}
	return a, b, errors.Join(err, l.Close())
}

// refused checks that err has a code and that its text has all the parts.
func refused(t *testing.T, err error, code api.Code, parts ...string) {
	t.Helper()
	if got := api.CodeOf(err); err == nil || got != code {
		t.Fatalf("error %v has the code %s, want %s", err, got, code)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not contain %q", err, part)
		}
	}
}

func keyOf(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune(seed)), ed25519.SeedSize)))
}
