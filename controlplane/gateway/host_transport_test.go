package gateway

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/fleettest"
	"github.com/corvo/corvo/api/rpc"
)

// endless is a body that says how much of it has been read.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(b []byte) (int, error) {
	e.read.Add(int64(len(b)))
	return len(b), nil
}

// TestNamespacesShareNoConnection checks that a body that its host does not read fills only the window of its
// own namespace's connection.
func TestNamespacesShareNoConnection(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	host := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Namespace") == "stuck" {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		_, _ = io.Copy(w, r.Body)
	}))
	host.Config.Protocols = new(http.Protocols)
	host.Config.Protocols.SetUnencryptedHTTP2(true)
	host.Start()
	defer func() { host.CloseClientConnections(); host.Close() }() // one may not be idle yet
	all := newTransports(nil)
	defer all.CloseIdleConnections()
	call := func(ctx context.Context, namespace string, body io.Reader) (*http.Response, error) {
		target, err := url.Parse(host.URL)
		if err != nil {
			t.Fatal(err)
		}
		t := &proxiedRequest{target: target}
		t.namespace = namespace
		r, err := http.NewRequestWithContext(context.WithValue(ctx, proxiedKey{}, t), http.MethodPost, host.URL+rpc.Prefix+"Ack", body)
		if err != nil {
			return nil, err
		}
		r.Header.Set("Namespace", namespace)
		return all.RoundTrip(r)
	}
	stuck, leave := context.WithCancel(ctx)
	defer leave()
	sent := &endless{}
	held, err := call(stuck, "stuck", sent)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Body.Close()
	fleettest.Eventually(t, "the window is full", func() bool { return sent.read.Load() >= 1<<20 })
	answer, err := call(ctx, "other", strings.NewReader(strings.Repeat("x", 64<<10)))
	if err != nil {
		t.Fatalf("another namespace's call: %v", err)
	}
	defer answer.Body.Close()
	if got, err := io.ReadAll(answer.Body); err != nil || len(got) != 64<<10 {
		t.Errorf("another namespace's call: %d bytes, %v", len(got), err)
	}
}

// TestConnectionsOfOldMembersAreDropped checks that a namespace's connections for the RPC are kept for each member, and
// dropped with the member and with the namespace.
func TestConnectionsOfOldMembersAreDropped(t *testing.T) {
	t.Parallel()
	all := newTransports(nil)
	r := httptest.NewRequest(http.MethodPost, rpc.Prefix+"Ack", nil)
	of := &proxiedRequest{}
	of.namespace = "ns_a"
	r = r.WithContext(context.WithValue(t.Context(), proxiedKey{}, of))
	a, b := peer{"host_1", "store_1"}, peer{"host_2", "store_2"}
	first, second := all.transport(r, a), all.transport(r, b)
	if first == second || all.transport(r, a) != first || all.transport(r, b) != second {
		t.Error("the connections change with each call")
	}
	all.take(fleet.Doc{Namespace: "ns_a", Desired: fleet.Open, Members: memberAt("http://host_2", 2)})
	if all.transport(r, b) != second {
		t.Error("the connections to a member were dropped")
	}
	if all.transport(r, a) == first {
		t.Error("the connections to an old member were kept")
	}
	all.take(fleet.Doc{Namespace: "ns_a", Desired: fleet.Absent})
	if _, kept := all.calls.Load("ns_a"); kept {
		t.Error("the connections of a namespace that is gone were kept")
	}
}
