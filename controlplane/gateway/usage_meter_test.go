package gateway

import (
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/fleettest"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/tenancy/keyring"
)

// TestCountsExactly checks that exactly the forwarded requests are charged, by namespace, and refused
// ones are not.
func TestCountsExactly(t *testing.T) {
	t.Parallel()
	w := newTown(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, strings.Repeat("x", 1000))
	})
	w.put("ns_b", nil)
	w.put("ns_closed", func(d *fleet.Doc) { d.Ready = false })
	a := w.key(keyring.Namespace, time.Time{}, "ns_a")
	org := w.key(keyring.Org, time.Time{}, "ns_a", "ns_b", "ns_closed")
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			w.send("POST", "/api/v1/enqueue", a, strings.Repeat("y", 100))
			w.send("GET", "/api/v1/queues", org, "", api.NamespaceHeader, "b")
			w.send("POST", "/api/v1/enqueue", org, "zzz", api.NamespaceHeader, "closed")
			w.send("POST", "/api/v1/enqueue", "wrong", "zzz")
		})
	}
	all.Wait()
	fleettest.Eventually(t, "usage comes while the gateway runs", func() bool { return w.plane.Used("ns_a")[billing.Requests] > 0 })
	w.stop()
	for namespace, want := range map[string]billing.Quantities{
		"ns_a":      {billing.Requests: 10, billing.RequestBytes: 1000, billing.ResponseBytes: 10_000},
		"ns_b":      {billing.Requests: 10, billing.ResponseBytes: 10_000},
		"ns_closed": {},
	} {
		if got := w.plane.Used(namespace); got != want {
			t.Errorf("%s: %+v, want %+v", namespace, got, want)
		}
	}
}

// TestUsageCountsOnce checks that usage is charged once even if the control plane's response is lost, and
// that no usage is lost while the control plane is down.
func TestUsageCountsOnce(t *testing.T) {
	t.Parallel()
	w := newTown(t, ok)
	key := w.key(keyring.Namespace, time.Time{}, "ns_a")
	w.plane.LoseAnswers(1)
	w.send("GET", "/api/v1/info", key, "")
	fleettest.Eventually(t, "the first frame is applied", func() bool { return w.plane.Used("ns_a")[billing.Requests] == 1 })
	w.send("GET", "/api/v1/info", key, "")
	fleettest.Eventually(t, "the second is, too", func() bool { return w.plane.Used("ns_a")[billing.Requests] == 2 })
	w.plane.SetDown(true)
	w.send("GET", "/api/v1/info", key, "")
	w.send("GET", "/api/v1/info", key, "")
	w.plane.SetDown(false)
	w.stop()
	if got, want := w.plane.Used("ns_a"), (billing.Quantities{billing.Requests: 4, billing.ResponseBytes: 8}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := w.plane.Sources(); got != 1 {
		t.Errorf("%d sources, want one for a run", got)
	}
	// Another run is another source, and begins at one.
	w.start()
	w.send("GET", "/api/v1/info", key, "")
	w.stop()
	if got := w.plane.Used("ns_a")[billing.Requests]; got != 5 || w.plane.Sources() != 2 {
		t.Errorf("%d requests of %d sources, want 5 of 2", got, w.plane.Sources())
	}
}

// newTestMeter returns a meter with the clock of the test that delivers only on request.
func newTestMeter(t *testing.T, now *time.Time) *meter {
	t.Helper()
	plane := fleettest.New(t)
	member, err := fleet.NewMember(fleet.MemberConfig{ControlPlane: plane.URL, Credential: plane.Register("gw_1", keyring.Gateway)})
	if err != nil {
		t.Fatal(err)
	}
	m, err := newMeter(rand.Reader, func() time.Time { return *now }, member, fleet.NewDirectory(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func frameOf(t *testing.T, m *meter) *billing.Frame {
	t.Helper()
	f, err := m.frame("ns_a")
	if err != nil {
		t.Fatal(err)
	}
	if f != nil {
		if err := f.Validate(); err != nil {
			t.Fatalf("%+v: %v", f, err)
		}
	}
	return f
}

func TestFramesAreGapless(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 17, 12, 59, 59, 0, time.UTC)
	m := newTestMeter(t, &now)
	d := fleet.Doc{Number: 1, Namespace: "ns_a", Desired: fleet.Open}
	m.directory.Put(d)
	if f := frameOf(t, m); f != nil {
		t.Errorf("a frame of nothing: %+v", f)
	}
	m.count("ns_a", 1, 2)
	now = now.Add(time.Second)
	m.count("ns_a", 10, 20)
	m.count("ns_a", 10, 20)
	first := frameOf(t, m)
	earlier, later := billing.Dimensions{HourNs: now.Add(-time.Hour).UnixNano()}, billing.Dimensions{HourNs: now.UnixNano()}
	want := &billing.Frame{Source: first.Source, From: 1, To: 3, Rows: []billing.Row{
		{Dimensions: earlier, Meter: billing.Requests, Quantity: 1}, {Dimensions: earlier, Meter: billing.RequestBytes, Quantity: 1},
		{Dimensions: earlier, Meter: billing.ResponseBytes, Quantity: 2},
		{Dimensions: later, Meter: billing.Requests, Quantity: 2}, {Dimensions: later, Meter: billing.RequestBytes, Quantity: 20},
		{Dimensions: later, Meter: billing.ResponseBytes, Quantity: 40},
	}}
	want.Hash = billing.HashRows(want.Rows)
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("the first frame (-want +got):\n%s", diff)
	}
	m.count("ns_a", 0, 0)
	if again := frameOf(t, m); again != first {
		t.Errorf("a frame that has not arrived became %+v", again)
	}
	m.settle(first, 3, nil)
	second := frameOf(t, m)
	if second.From != 4 || second.To != 4 || second.Source != first.Source {
		t.Errorf("the second is %+v", second)
	}
	m.settle(second, 4, nil)

	// Refused for good: not charged, and the next begins another sequence.
	m.count("ns_a", 0, 0)
	refused := frameOf(t, m)
	m.settle(refused, 0, api.Errorf(api.ValidationError, "no"))
	m.count("ns_a", 0, 0)
	fourth := frameOf(t, m)
	if fourth.From != 1 || fourth.To != 1 || fourth.Incarnation == first.Incarnation {
		t.Errorf("after one that was refused: %+v", fourth)
	}
	// If the control plane has lost usage that it had acknowledged, the rest is delivered in a new sequence.
	m.count("ns_a", 5, 5)
	m.settle(fourth, 0, api.Errorf(api.StateConflict, "a gap"))
	fifth := frameOf(t, m)
	if fifth.From != 1 || fifth.To != 2 || fifth.Incarnation == fourth.Incarnation {
		t.Errorf("after a gap: %d to %d of %s after %s", fifth.From, fifth.To, fifth.Incarnation, fourth.Incarnation)
	}
	if len(fifth.Rows) != 3 || fifth.Rows[0].Quantity != 2 || fifth.Rows[1].Quantity != 5 {
		t.Errorf("after a gap: %+v", fifth.Rows)
	}
	// A namespace that is gone is forgotten when its usage is delivered.
	d.Number, d.Desired = 2, fleet.Absent
	m.directory.Put(d)
	if frameOf(t, m) != fifth {
		t.Error("its usage is thrown away")
	}
	m.settle(fifth, 2, nil)
	if f := frameOf(t, m); f != nil || len(m.ledgers) != 0 {
		t.Error("it is kept for ever")
	}
}

// TestFrameRowsAtTheBound checks that the meter counts every request even if a frame has as many hours as it may, which
// takes two weeks without a control plane.
func TestFrameRowsAtTheBound(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 17, 12, 0, 0, 0, time.UTC)
	m := newTestMeter(t, &now)
	for range maxHours {
		m.count("ns_a", 1, 1)
		now = now.Add(time.Hour)
	}
	m.count("ns_a", 1, 1)
	f := frameOf(t, m)
	if err := f.Validate(); err != nil {
		t.Error(err)
	}
	if len(f.Rows) != 3*maxHours || f.To != maxHours+1 || f.Rows[len(f.Rows)-3].Quantity != 2 {
		t.Errorf("%d rows, to %d", len(f.Rows), f.To)
	}
}

// TestGatewayClaims checks that a claim is the time of the oldest request that is not delivered, or else the present.
func TestGatewayClaims(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 5, 17, 12, 59, 59, 0, time.UTC)
	now := start
	m := newTestMeter(t, &now)
	m.directory.Put(fleet.Doc{Number: 1, Namespace: "ns_a", Desired: fleet.Open})
	claims := func(what string, want time.Duration) {
		t.Helper()
		now = now.Add(time.Second)
		if got := time.Unix(0, m.claim().UntilNs).Sub(start); got != want {
			t.Errorf("%s: complete until %s, want %s", what, got, want)
		}
	}
	claims("no request", time.Second)
	m.count("ns_a", 1, 2)
	claims("a request", time.Second)
	m.count("ns_b", 1, 2)
	claims("a request of another namespace", time.Second)
	first := frameOf(t, m)
	claims("a frame under way", time.Second)
	m.count("ns_a", 1, 2)
	m.settle(first, 1, nil)
	claims("a frame was delivered", 2*time.Second)
	second := frameOf(t, m)
	m.count("ns_a", 1, 2)
	m.settle(second, 0, api.Errorf(api.StateConflict, "lost"))
	other, err := m.frame("ns_b")
	if err != nil {
		t.Fatal(err)
	}
	m.settle(other, 1, nil)
	claims("a frame goes into a new sequence", 4*time.Second)
	m.settle(frameOf(t, m), 2, nil)
	claims("everything was delivered", 7*time.Second)
}

// TestAGatewayReportsItsClaim checks that a gateway without requests reports a claim.
func TestAGatewayReportsItsClaim(t *testing.T) {
	t.Parallel()
	w := newTown(t, ok)
	claimed := func(r fleet.Report) bool { return r.Usage != nil && r.Usage.UntilNs > 0 }
	fleettest.Eventually(t, "the gateway reports a claim", func() bool { return slices.ContainsFunc(w.plane.Reports(), claimed) })
}
