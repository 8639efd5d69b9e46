package fleet_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/api/fleet/fleettest"
	"github.com/corvo/corvo/tenancy/keyring"
)

const testStore = fleet.StorePrefix + "01hzzzzzzzzzzzzzzzzzzzzzzz"

// certified is a host that keeps its certificate in a file. ahead is how far its clock is ahead of the real one.
type certified struct {
	plane      *fleettest.ControlPlane
	path       string
	credential string
	ahead      atomic.Int64
}

func newCertified(t *testing.T, c *fleettest.ControlPlane) *certified {
	return &certified{plane: c, path: filepath.Join(t.TempDir(), certificate.FileName), credential: c.Register("host_1", keyring.Host)}
}

func (c *certified) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// holder opens the file, as a start of the process does.
func (c *certified) holder(t *testing.T, root string) *certificate.Holder {
	t.Helper()
	h, err := certificate.Open(certificate.Config{
		Path: c.path, Kind: certificate.Host, Store: testStore, FleetRoot: root, Now: c.now, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (c *certified) member(t *testing.T, h *certificate.Holder) *fleet.Member {
	t.Helper()
	m, err := fleet.NewMember(fleet.MemberConfig{
		ControlPlane: c.plane.URL, Credential: c.credential, Certificate: h, Now: c.now,
		Join:   fleet.JoinRequest{Address: "http://127.0.0.1:1", Version: "test", Store: testStore},
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// untilJoined runs a new process of the host until it follows the documents.
func (c *certified) untilJoined(t *testing.T, h *certificate.Holder) {
	t.Helper()
	m := c.member(t, h)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx, fleet.Follow{}) }()
	fleettest.Eventually(t, "the host follows", m.Connected)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestAJoinBringsACertificate joins as a host: for the first time, after a restart with the file, after a restart with a
// damaged file, and when the certificate is due for renewal.
func TestAJoinBringsACertificate(t *testing.T) {
	t.Parallel()
	c := newCertified(t, fleettest.NewTLS(t))
	step := func(name string, issued int) *certificate.Member {
		t.Helper()
		h := c.holder(t, c.plane.Root())
		c.untilJoined(t, h)
		if got := c.plane.Issued(); got != issued {
			t.Fatalf("%s: %d certificates were issued, want %d", name, got, issued)
		}
		return h.Member()
	}
	first := step("first join", 1)
	if want := (certificate.Identity{Kind: certificate.Host, ID: "host_1", Store: testStore}); first.Identity != want {
		t.Errorf("the certificate is of %s, want %s", first.Identity, want)
	}
	info, err := os.Stat(c.path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode != 0o600 {
		t.Errorf("the file has the mode %o", mode)
	}
	if again := step("restart", 1); !again.Ends().Equal(first.Ends()) {
		t.Error("a restart replaced the certificate")
	}
	if err := os.WriteFile(c.path, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	step("damaged file", 2)
	c.ahead.Store(int64(certificate.RenewAfter))
	step("renewal", 3)
}

// TestAFullDiskDoesNotEndAMembership keeps a host from writing its renewed certificate. It goes on with the present one,
// but does not join without any.
func TestAFullDiskDoesNotEndAMembership(t *testing.T) {
	t.Parallel()
	c := newCertified(t, fleettest.NewTLS(t))
	h := c.holder(t, c.plane.Root())
	c.untilJoined(t, h)
	before := h.Member()
	if err := os.RemoveAll(filepath.Dir(c.path)); err != nil {
		t.Fatal(err)
	}
	c.ahead.Store(int64(certificate.RenewAfter))
	c.untilJoined(t, h)
	if h.Member() != before || c.plane.Issued() != 2 {
		t.Errorf("the certificate was replaced without a file, or %d were issued instead of 2", c.plane.Issued())
	}
	m := c.member(t, c.holder(t, c.plane.Root())) // a new process, which has no certificate at all
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	joins := c.plane.Joins()
	go func() { ended <- m.Run(ctx, fleet.Follow{}) }()
	fleettest.Eventually(t, "the host has tried twice", func() bool { return c.plane.Joins() >= joins+2 })
	cancel()
	if err := <-ended; err != nil || m.Token() != "" {
		t.Errorf("without a certificate the host has joined with token %q: %v", m.Token(), err)
	}
}

// TestTheFirstJoinTrustsOneRoot joins with the SHA-256 of another root, which is refused, and after the first join with the
// file alone.
func TestTheFirstJoinTrustsOneRoot(t *testing.T) {
	t.Parallel()
	plane, other := fleettest.NewTLS(t), fleettest.NewTLS(t)
	c := newCertified(t, plane)
	var log lockedText
	m, err := fleet.NewMember(fleet.MemberConfig{
		ControlPlane: plane.URL, Credential: c.credential, Certificate: c.holder(t, other.Root()),
		Join: fleet.JoinRequest{Address: "http://127.0.0.1:1", Store: testStore}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx, fleet.Follow{}) }()
	fleettest.Eventually(t, "the log names both roots", func() bool {
		return strings.Contains(log.String(), plane.Root()) && strings.Contains(log.String(), other.Root())
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if sent := plane.Joins() + plane.Refused(); sent > 0 {
		t.Errorf("the credential was sent %d times", sent)
	}
	c.untilJoined(t, c.holder(t, plane.Root()))
	c.untilJoined(t, c.holder(t, other.Root())) // the file counts
}
