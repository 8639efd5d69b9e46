package fleet_test

import (
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/fleettest"
	"github.com/corvo/corvo/tenancy/keyring"
)

func TestParseEndpoints(t *testing.T) {
	t.Parallel()
	most := strings.TrimSuffix(strings.Repeat("http://a,", fleet.MaxEndpoints), ",")
	for text, ok := range map[string]bool{
		"http://a": true, "https://a:1/, http://b/base/": true, most: true, most + ",http://a": false,
		"": false, "http://a,": false, "a:1": false, "http://a,ftp://b": false, "http://a?x=1": false,
	} {
		if e, err := fleet.ParseEndpoints(text); (err == nil) != ok || ok && e.Len() != strings.Count(text, ",")+1 {
			t.Errorf("%.60q: %v", text, err)
		}
	}
}

// Users that fail at the same process go on once, and the list starts again at its end.
func TestEndpointsGoOnTogether(t *testing.T) {
	t.Parallel()
	e, err := fleet.ParseEndpoints("http://a/, http://b")
	if err != nil {
		t.Fatal(err)
	}
	want := func(index int, base string) {
		t.Helper()
		if i, u := e.Current(); i != index || u.String() != base {
			t.Errorf("process %d at %s is asked, want %d at %s", i, u, index, base)
		}
	}
	want(0, "http://a")
	e.Leave(0)
	e.Leave(0)
	want(1, "http://b")
	e.Leave(1)
	want(0, "http://a")
}

// A member finds the process that serves it behind one that is away and one without a leader, and another one
// when that ends. It misses no document.
func TestMemberGoesOnWithTheNextProcess(t *testing.T) {
	t.Parallel()
	c := fleettest.New(t)
	gone := httptest.NewServer(nil)
	gone.Close()
	follower := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"error":"no leader","code":"LEADER_UNAVAILABLE"}`)
	}))
	t.Cleanup(follower.Close)
	// The same control plane behind a second process, which passes requests on until it is closed.
	to, err := url.Parse(c.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.FlushInterval, proxy.ErrorLog = -1, log.New(io.Discard, "", 0)
	first := httptest.NewServer(proxy)
	t.Cleanup(first.Close)

	m, err := fleet.NewMember(fleet.MemberConfig{
		ControlPlane: strings.Join([]string{gone.URL, follower.URL, first.URL, c.URL}, ", "), Credential: c.Register("m1", keyring.Host),
		Join: fleet.JoinRequest{Address: "http://127.0.0.1:1", Version: "test"}, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	var h received
	run(t, m, h.follow())
	c.Put(open("a"))
	wait(t, &h, 1)
	if at, _ := m.Endpoints().Current(); at != 2 {
		t.Errorf("it asks process %d", at)
	}
	if _, err := m.Report(t.Context(), fleet.Report{}); err != nil {
		t.Errorf("a report: %v", err)
	}
	first.CloseClientConnections()
	first.Listener.Close()
	c.Put(open("b"))
	wait(t, &h, 1, 2)
	if _, err := m.Report(t.Context(), fleet.Report{}); err != nil {
		t.Errorf("a report to the next process: %v", err)
	}
}
