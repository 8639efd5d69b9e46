package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/api/fleet/fleettest"
	"github.com/corvo/corvo/api/rpc"
	"github.com/corvo/corvo/tenancy/keyring"
)

// certified returns the holder of a member with a fresh certificate of the root.
func certified(t *testing.T, root *certificate.Root, who certificate.Identity) *certificate.Holder {
	t.Helper()
	return fleettest.Certified(t, root, who, time.Now(), nil)
}

// serveHost serves as a host over TLS until stop or the end of the test. It answers with the major version of HTTP.
func serveHost(t *testing.T, root *certificate.Root, id, store string) (address string, stop func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, strconv.Itoa(r.ProtoMajor))
		}),
		TLSConfig: fleet.HostServer(certified(t, root, certificate.Identity{Kind: certificate.Host, ID: id, Store: store})),
		ErrorLog:  log.New(io.Discard, "", 0), // refused handshakes
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.ServeTLS(listener, "", "") })
	stop = func() { s.Close(); serving.Wait() }
	t.Cleanup(stop)
	return listener.Addr().String(), stop
}

// TestAHostIsKnownByItsCertificate sends requests and calls over TLS to a host, and then requests for another
// host and for another store to the same address, while connections to the first host are idle. The gateway
// sends nothing to a host whose certificate names another host or store.
func TestAHostIsKnownByItsCertificate(t *testing.T) {
	t.Parallel()
	root := fleettest.NewRoot(t, time.Now())
	address, stop := serveHost(t, root, "host_1", "store_1")
	all := newTransports(certified(t, root, certificate.Identity{Kind: certificate.Gateway, ID: "gw_1"}))
	defer all.CloseIdleConnections()
	send := func(scheme, path, id, store string) (string, error) {
		p := &proxiedRequest{host: id, store: store}
		p.namespace = "ns_1"
		r, err := http.NewRequestWithContext(context.WithValue(t.Context(), proxiedKey{}, p), http.MethodPost, scheme+"://"+address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := all.RoundTrip(r)
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		return string(text), err
	}
	for path, protocol := range map[string]string{"/api/v1/enqueue": "1", rpc.Prefix + "Ack": "2"} {
		for range 2 {
			if got, err := send("https", path, "host_1", "store_1"); err != nil || got != protocol {
				t.Fatalf("%s goes over HTTP/%s: %v", path, got, err)
			}
		}
		for _, other := range [][2]string{{"host_2", "store_1"}, {"host_1", "store_2"}} {
			got, err := send("https", path, other[0], other[1])
			if err == nil || !unconnected(err) || errors.As(err, new(*api.Error)) || !strings.Contains(err.Error(), "is at the other end") {
				t.Errorf("%s to %v was answered %q: %v", path, other, got, err)
			}
		}
		if got, err := send("https", path, "host_1", "store_1"); err != nil || got != protocol {
			t.Errorf("%s goes over HTTP/%s: %v", path, got, err)
		}
		if _, err := send("http", path, "host_1", "store_1"); err == nil || !strings.Contains(err.Error(), "speaks TLS only") {
			t.Errorf("%s was sent in the open: %v", path, err)
		}
	}
	stop()
	if _, err := send("https", "/api/v1/enqueue", "host_2", "store_1"); err == nil || !unconnected(err) {
		t.Errorf("a host that is away: %v", err)
	}
	var network *net.OpError
	if _, err := send("https", rpc.Prefix+"Ack", "host_2", "store_1"); !errors.As(err, &network) {
		t.Errorf("a host that is away: %v", err)
	}
}

// TestWaitsForItsHostOverTLS sends a request to a host that is away. When a document names another host with another
// store, the gateway sends the request there.
func TestWaitsForItsHostOverTLS(t *testing.T) {
	t.Parallel()
	root := fleettest.NewRoot(t, time.Now())
	gateway := certified(t, root, certificate.Identity{Kind: certificate.Gateway, ID: "gw_1"})
	w := newTown(t, ok, patient, func(c *Config) { c.Transport = newTransports(gateway) })
	away, stop := serveHost(t, root, "host_1", "store_1")
	stop()
	w.put("ns_a", func(d *fleet.Doc) { d.Members = memberAt("https://"+away, 1) })
	key := w.key(keyring.Namespace, time.Time{}, "ns_a")
	answered := make(chan reply, 1)
	go func() { answered <- w.send("POST", "/api/v1/enqueue", key, "{}") }()
	w.waits(1)
	address, _ := serveHost(t, root, "host_2", "store_2")
	w.put("ns_a", func(d *fleet.Doc) { d.Members = memberAt("https://"+address, 2) })
	if got := <-answered; got.StatusCode != http.StatusOK || got.body != "1" {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
}

// TestAFailedHandshakeSendsNothing checks that the answer to a write says that nothing was done, if the
// handshake with the host failed.
func TestAFailedHandshakeSendsNothing(t *testing.T) {
	t.Parallel()
	ours, foreign := fleettest.NewRoot(t, time.Now()), fleettest.NewRoot(t, time.Now())
	gateway := certified(t, ours, certificate.Identity{Kind: certificate.Gateway, ID: "gw_1"})
	address, _ := serveHost(t, foreign, "host_1", "store_1")
	w := newTown(t, ok, func(c *Config) { c.Transport = newTransports(gateway) })
	key := w.key(keyring.Namespace, time.Time{}, "ns_a")
	w.put("ns_a", func(d *fleet.Doc) { d.Members = memberAt("https://"+address, 1) })
	w.settle()
	if got := w.send("POST", "/api/v1/enqueue", key, `{}`); got.StatusCode != 503 || !strings.Contains(got.body, "nothing was done") {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
}

// TestAHandshakeNamesTheServer checks that the gateway tells a server the name in its URL.
func TestAHandshakeNamesTheServer(t *testing.T) {
	t.Parallel()
	root := fleettest.NewRoot(t, time.Now())
	served := fleet.HostServer(certified(t, root, certificate.Identity{Kind: certificate.Host, ID: "host_1", Store: "store_1"}))
	names := make(chan string, 1)
	served.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		names <- hello.ServerName
		return nil, nil // the same configuration
	}
	host := httptest.NewUnstartedServer(http.NotFoundHandler())
	host.TLS = served
	host.StartTLS()
	defer host.Close()
	one := new(http.Protocols)
	one.SetHTTP1(true)
	gateway := certified(t, root, certificate.Identity{Kind: certificate.Gateway, ID: "gw_1"})
	transport := newTransport(one, fleet.HostClient(gateway, "host_1", "store_1"))
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.Replace(host.URL, "127.0.0.1", "localhost", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if got := <-names; got != "localhost" {
		t.Errorf("the handshake names %q", got)
	}
}
