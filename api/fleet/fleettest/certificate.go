package fleettest

import (
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/telemetry"
)

// NewRoot makes the root of a fleet, valid from a time on.
func NewRoot(tb testing.TB, from time.Time) *certificate.Root {
	tb.Helper()
	root, err := certificate.NewRoot(from, rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return root
}

// bundleOf returns the bundle with a root alone.
func bundleOf(root *certificate.Root) certificate.Bundle {
	b, err := certificate.NewBundle(root.DER())
	if err != nil {
		panic(err) // NewRoot made it
	}
	return b
}

// Certified returns the holder of a member to which the root issued a certificate at a time. now is the holder's clock;
// nil = time.Now. names are the names of the certificate, which only one of the control plane may have.
func Certified(tb testing.TB, root *certificate.Root, who certificate.Identity, issued time.Time, now func() time.Time, names ...string) *certificate.Holder {
	tb.Helper()
	h, err := certificate.Open(certificate.Config{
		Path: filepath.Join(tb.TempDir(), certificate.FileName), Kind: who.Kind, Store: who.Store,
		Now: now, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		tb.Fatal(err)
	}
	csr, err := h.Request()
	if err != nil {
		tb.Fatal(err)
	}
	der, err := root.Issue(csr, who, names, issued, rand.Reader)
	if err == nil {
		err = h.Accept(who.ID, der, bundleOf(root))
	}
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

// Clock is a clock that a test puts ahead. Its zero value shows the time.
type Clock struct{ ahead atomic.Int64 }

// Now returns the time that the clock shows.
func (c *Clock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// Forward puts the clock ahead by d more.
func (c *Clock) Forward(d time.Duration) { c.ahead.Add(int64(d)) }

// CheckExpiry moves the clock of a part's certificate, which was issued just now and is not renewed, through the
// certificate's last days. It checks /readyz of the part, and its metrics after the end.
func CheckExpiry(tb testing.TB, clock *Clock, part, metrics http.Handler) {
	tb.Helper()
	for _, c := range []struct {
		ahead  time.Duration
		status int
		says   string
	}{
		{0, http.StatusOK, `"certificate":"ok"`},
		{certificate.Life - certificate.AlarmBefore - time.Minute, http.StatusOK, `"certificate":"ok"`},
		{certificate.Life - certificate.AlarmBefore + time.Minute, http.StatusOK, `"certificate":"the certificate expires at `},
		{certificate.Life + time.Minute, http.StatusServiceUnavailable, "was valid until"},
	} {
		clock.ahead.Store(int64(c.ahead))
		if status, says := Ask(tb, part, "/readyz"); status != c.status || !strings.Contains(says, c.says) {
			tb.Errorf("%v after the issue: %d %s", c.ahead, status, says)
		}
	}
	if _, says := Ask(tb, metrics, "/metrics"); !strings.Contains(says, "\n"+telemetry.CertificateRemaining.Name+" 0\n") {
		tb.Error("the metrics of an expired certificate:", says)
	}
}

// Ask sends a GET request to a handler and returns the status and the body of the response.
func Ask(tb testing.TB, h http.Handler, path string) (status int, body string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(tb.Context(), http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}
