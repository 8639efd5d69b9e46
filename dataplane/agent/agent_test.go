package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/fleettest"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
	"github.com/corvo/corvo/tenancy/token"
)

// openAgent returns an agent with a host and the control plane that it follows.
func openAgent(t *testing.T, dir string, plane *fleettest.ControlPlane) *Agent {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	a, err := Open(Config{
		DataDir: dir, Store: "store_1", ControlPlane: plane.URL, Credential: plane.Register("host_1", keyring.Host), Logger: logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.Open(host.Config{DataDir: dir, NodeID: "store_1", Members: a.Members, OnChange: a.Notify, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	a.host = h
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Errorf("close the agent: %v", err)
		}
		if err := h.Close(context.Background()); err != nil {
			t.Errorf("close the host: %v", err)
		}
	})
	return a
}

func doc(number int64, ns, desired string, generation int64) fleet.Doc {
	return fleet.Doc{
		Number: number, Namespace: ns, Name: ns, Org: "org_1", Generation: generation, Desired: desired, Epoch: 1,
		Members: []fleet.GroupMember{{Store: "store_1", Host: "host_1", Role: fleet.Found}},
	}
}

// stateOf returns the reported state of a namespace.
func (a *Agent) stateOf(ns string) string {
	for _, c := range a.report().Cells {
		if c.Namespace == ns {
			return c.State
		}
	}
	return "unknown"
}

// TestChangesTakeTurns checks that at most MaxChanging namespaces are opened at a time, because the namespaces
// that are being served share the disk.
func TestChangesTakeTurns(t *testing.T) {
	t.Parallel()
	a := openAgent(t, t.TempDir(), fleettest.New(t))
	for range MaxChanging {
		a.slots <- struct{}{}
	}
	if err := a.applyDoc(doc(1, "ns_a", fleet.Open, 1)); err != nil {
		t.Fatal(err)
	}
	fleettest.Eventually(t, "it waits for its turn", func() bool { return a.stateOf("ns_a") == fleet.Opening })
	if _, err := a.host.Cells("ns_a"); err == nil {
		t.Errorf("it is change number %d at once and has been made", MaxChanging+1)
	}
	<-a.slots
	fleettest.Eventually(t, "it has had its turn", func() bool { return a.stateOf("ns_a") == fleet.Opened })
	for range MaxChanging - 1 {
		<-a.slots
	}
}

// TestTheNewestDocumentWins checks that a document that arrives during the change for an older one takes
// effect after that change, never at the same time.
func TestTheNewestDocumentWins(t *testing.T) {
	t.Parallel()
	a := openAgent(t, t.TempDir(), fleettest.New(t))
	for range MaxChanging {
		a.slots <- struct{}{}
	}
	for number, desired := range []string{fleet.Open, fleet.Absent, fleet.Open, fleet.Absent} {
		if err := a.applyDoc(doc(int64(number+1), "ns_a", desired, int64(number+1))); err != nil {
			t.Fatal(err)
		}
	}
	for range MaxChanging {
		<-a.slots
	}
	fleettest.Eventually(t, "the last document is in effect", func() bool {
		cells := a.report().Cells
		return len(cells) == 1 && cells[0].State == fleet.Gone && cells[0].Generation == 4
	})
	if disk, err := a.host.OnDisk(); err != nil || len(disk) != 0 {
		t.Errorf("on disk: %v, %v", disk, err)
	}
}

// TestAnUnknownWishIsAFailure checks that an unknown state of a later control plane means neither "delete"
// nor "open".
func TestAnUnknownWishIsAFailure(t *testing.T) {
	t.Parallel()
	a := openAgent(t, t.TempDir(), fleettest.New(t))
	if err := a.applyDoc(doc(1, "ns_a", fleet.Open, 1)); err != nil {
		t.Fatal(err)
	}
	fleettest.Eventually(t, "it is open", func() bool { return a.stateOf("ns_a") == fleet.Opened })
	if err := a.applyDoc(doc(2, "ns_a", "asleep", 2)); err != nil {
		t.Fatal(err)
	}
	fleettest.Eventually(t, "it is a failure", func() bool { return a.stateOf("ns_a") == fleet.Failed })
	if disk, err := a.host.OnDisk(); err != nil || len(disk) != 1 {
		t.Errorf("on disk: %v, %v", disk, err)
	}
}

// TestTheMemoryOfDeletedNamespacesIsBounded checks that deleted namespaces are remembered, so that a control
// plane that has forgotten one is told again, but only up to a bound.
func TestTheMemoryOfDeletedNamespacesIsBounded(t *testing.T) {
	t.Parallel()
	a := openAgent(t, t.TempDir(), fleettest.New(t))
	for n := range int64(MaxGone + 3) {
		d := doc(n+1, fmt.Sprintf("ns_%04d", n), fleet.Absent, 2)
		p := newPlacement(d)
		p.state, p.generation = fleet.Gone, 2
		a.placements[d.Namespace] = p
	}
	if err := a.applyDoc(doc(MaxGone+10, "ns_new", fleet.Open, 1)); err != nil {
		t.Fatal(err)
	}
	if n := len(a.report().Cells); n != MaxGone+1 {
		t.Errorf("%d namespaces are reported, want %d and the new one", n, MaxGone)
	}
	for n, want := range map[int]string{2: "unknown", 3: fleet.Gone} { // the oldest were forgotten
		if got := a.stateOf(fmt.Sprintf("ns_%04d", n)); got != want {
			t.Errorf("namespace %d is %s, want %s", n, got, want)
		}
	}
}

// TestUsesAreNotLost checks that unreported uses are reported later, with the newest time.
func TestUsesAreNotLost(t *testing.T) {
	t.Parallel()
	var used lastUsed
	used.note("a", 5)
	used.note("a", 3)
	taken := used.take(9)
	if len(taken) != 1 || taken["a"] != 5 || used.take(9) != nil {
		t.Fatalf("taken: %v", taken)
	}
	used.note("a", 4)
	used.note("b", 9)
	used.restore(taken)
	if again := used.take(9); again["a"] != 5 || again["b"] != 9 {
		t.Errorf("after it was given back: %v", again)
	}
	used.restore(map[string]int64{"a": 1, "b": 2, "c": 3})
	some, rest := used.take(2), used.take(2)
	maps.Copy(rest, some)
	if len(some) != 2 || len(rest) != 3 || used.take(2) != nil {
		t.Errorf("at most two at a time: %v of %v", some, rest)
	}
}

// TestPasses checks that a gateway's token is verified once a second and not at every request, never accepted
// after its own end, and not accepted once its key is no longer trusted.
func TestPasses(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	var p passes
	if p.good("x", now) {
		t.Error("a token nobody has verified is good")
	}
	p.note("x", now.Add(time.Hour), now)
	if !p.good("x", now.Add(passLife-1)) || p.good("x", now.Add(passLife)) {
		t.Errorf("it is not good for %v", passLife)
	}
	p.note("y", now.Add(passLife/2), now)
	if p.good("y", now.Add(passLife/2)) {
		t.Error("it is good after its end")
	}
	p.forget()
	if p.good("x", now) {
		t.Error("it is good after the keys changed")
	}
	for range maxPasses + 1 {
		p.note(rand.Text(), now.Add(time.Hour), now)
	}
	if len(p.until) > maxPasses {
		t.Errorf("%d are kept, the bound is %d", len(p.until), maxPasses)
	}
}

// TestAgentReportsAtOnce checks that the first report follows the first message of the control plane, not the
// next tick, and that later ones are deltas.
func TestAgentReportsAtOnce(t *testing.T) {
	t.Parallel()
	plane := fleettest.New(t)
	a := openAgent(t, t.TempDir(), plane)
	if err := a.Start(t.Context(), a.host); err != nil {
		t.Fatal(err)
	}
	fleettest.Eventually(t, "it reports", func() bool { return len(plane.Reports()) > 0 })
	plane.Put(doc(0, "ns_a", fleet.Open, 1))
	fleettest.Eventually(t, "the opening is reported", func() bool {
		all := plane.Reports()
		last := all[len(all)-1]
		return len(last.Cells) == 1 && last.Cells[0].State == fleet.Opened && last.Number == 1 && all[0].Base == 0 && last.Base != 0
	})
	if got := a.host.Namespaces(); len(got) != 1 || got[0] != tenancy.NamespaceID("ns_a") {
		t.Errorf("open: %v", got)
	}
}

// TestOnlyGatewaysComeIn checks that only gateways reach a host, even with a tenant's valid key, also while
// the control plane is down.
func TestOnlyGatewaysComeIn(t *testing.T) {
	t.Parallel()
	plane, dir := fleettest.New(t), t.TempDir()
	trusted, other := newKey(t), newKey(t)
	catalogue, _, err := fleet.OpenCatalogue(filepath.Join(dir, CatalogueFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(catalogue.Put(fleet.Message{JWKS: token.NewSet(trusted.Public()).JWKS()}), catalogue.Close()); err != nil {
		t.Fatal(err)
	}
	a := openAgent(t, dir, plane)
	text, id, hash, err := keyring.New(rand.Reader, keyring.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	d := doc(1, "ns_a", fleet.Open, 1)
	d.Keys = []fleet.Key{{ID: id, Roles: []string{string(tenancy.Worker)}, Hash: hash[:]}}
	a.directory.Put(d)
	sign := func(k token.Key, role tenancy.Role, audience string, at time.Time) string {
		text, err := token.Sign(k, token.Claims{Subject: "m", Role: string(role), Audience: audience}, at)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	now := time.Now()
	good := sign(trusted, tenancy.GatewayMember, token.Hosts, now)
	for what, shown := range map[string][]string{
		"none":                  nil,
		"an empty one":          {""},
		"a host's":              {sign(trusted, tenancy.HostMember, token.Hosts, now)},
		"an operator's":         {sign(trusted, tenancy.CloudOperator, token.Hosts, now)},
		"for the control plane": {sign(trusted, tenancy.GatewayMember, token.ControlPlane, now)},
		"an expired one":        {sign(trusted, tenancy.GatewayMember, token.Hosts, now.Add(-token.Outage-time.Hour))},
		"one of another cloud":  {sign(other, tenancy.GatewayMember, token.Hosts, now)},
		"two":                   {good, good},
		"garbage":               {"garbage"},
		"the tenant's key":      {text},
	} {
		for range 2 { // a refused token must not be cached
			r := httptest.NewRequest("GET", "/", nil)
			r.Header.Set("Authorization", "Bearer "+text)
			r.Header[http.CanonicalHeaderKey(fleet.ServiceHeader)] = shown
			if who, err := a.Authenticate(r); api.CodeOf(err) != api.Unauthorized || who.Namespace != "" {
				t.Errorf("with %s: %+v, %v", what, who, err)
			}
		}
	}
	for range 2 {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set(fleet.ServiceHeader, good)
		if who, err := a.Authenticate(r); api.CodeOf(err) != api.Unauthorized || who.Namespace != "" {
			t.Errorf("a gateway without a tenant: %+v, %v", who, err)
		}
		r.Header.Set("Authorization", "Bearer "+text)
		if who, err := a.Authenticate(r); err != nil || who.Namespace != "ns_a" || who.KeyID != id {
			t.Errorf("a gateway with a tenant: %+v, %v", who, err)
		}
	}
}

// TestGatewaysComeInWhileTheControlPlaneIsAway checks that a gateway's expired token is accepted only while
// it cannot be renewed.
func TestGatewaysComeInWhileTheControlPlaneIsAway(t *testing.T) {
	t.Parallel()
	plane := fleettest.New(t)
	a := openAgent(t, t.TempDir(), plane)
	a.cfg.Now = func() time.Time { return time.Now().Add(time.Hour) }
	if err := a.Start(t.Context(), a.host); err != nil {
		t.Fatal(err)
	}
	text, id, hash, err := keyring.New(rand.Reader, keyring.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	d := doc(0, "ns_a", fleet.Open, 1)
	d.Keys = []fleet.Key{{ID: id, Roles: []string{string(tenancy.Worker)}, Hash: hash[:]}}
	plane.Put(d)
	fleettest.Eventually(t, "the namespace is open", func() bool { return a.stateOf("ns_a") == fleet.Opened })
	gateway, err := fleet.NewMember(fleet.MemberConfig{ControlPlane: plane.URL, Credential: plane.Register("gw_1", keyring.Gateway), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- gateway.Run(ctx, fleet.Follow{}) }()
	defer func() { cancel(); <-ended }()
	fleettest.Eventually(t, "the gateway has joined", func() bool { return gateway.HostToken() != "" })
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set(fleet.ServiceHeader, gateway.HostToken())
	r.Header.Set("Authorization", "Bearer "+text)
	if _, err := a.Authenticate(r); api.CodeOf(err) != api.Unauthorized {
		t.Errorf("with an expired token: %v", err)
	}
	plane.SetDown(true)
	fleettest.Eventually(t, "it comes in when the control plane is away", func() bool {
		_, err := a.Authenticate(r)
		return err == nil
	})
}

func newKey(t *testing.T) token.Key {
	t.Helper()
	k, err := token.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}
