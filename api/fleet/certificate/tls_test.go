package certificate_test

import (
	"crypto/rand"
	"crypto/tls"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet/certificate"
)

// TestConnectionsThatAreRefused connects a client to a server. In each case the certificate of one side is
// not what the other side expects.
func TestConnectionsThatAreRefused(t *testing.T) {
	t.Parallel()
	root, foreign := newRoot(t, start), newRoot(t, start)
	ours, theirs := bundleOf(t, root), bundleOf(t, foreign)
	otherStore, otherHost := host, host
	otherStore.Store, otherHost.ID = "store_2", "host_2"
	afterEnd := start.Add(certificate.Life + time.Second)
	const serverRefuses, clientRefuses = "server", "client"
	for name, c := range map[string]struct {
		server, client certificate.Identity
		serverRoot     *certificate.Root
		clientRoot     *certificate.Root
		serverNow      time.Time
		clientNow      time.Time
		refuses        string
		parts          []string
	}{
		"the server's certificate has expired by the client's clock": {
			serverNow: start, clientNow: afterEnd, client: gateway, server: host, refuses: clientRefuses,
			parts: []string{"host_1", "2026-03-08T12:00:00Z", "2026-03-08T12:00:01Z"},
		},
		"the server's certificate has expired by its own clock": {
			serverNow: afterEnd, clientNow: start, client: gateway, server: host, refuses: serverRefuses,
			parts: []string{"host_1", "2026-03-08T12:00:00Z", "2026-03-08T12:00:01Z"},
		},
		"the client is of another fleet": {
			client: gateway, server: host, clientRoot: foreign, refuses: clientRefuses, parts: []string{"of another fleet", foreign.Fingerprint()},
		},
		"the server expects another kind": {
			client: plane, server: host, refuses: serverRefuses, parts: []string{"corvo://fleet/control-plane/control-1", "[gateway]"},
		},
		"the server has another store": {
			client: gateway, server: otherStore, refuses: clientRefuses, parts: []string{otherStore.String(), host.String()},
		},
		"the server is another host": {
			client: gateway, server: otherHost, refuses: clientRefuses, parts: []string{otherHost.String(), host.String()},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, now := range []*time.Time{&c.serverNow, &c.clientNow} {
				if now.IsZero() {
					*now = start
				}
			}
			clientRoot, clientBundle := root, ours
			if c.clientRoot != nil {
				clientRoot, clientBundle = c.clientRoot, theirs
			}
			server := join(t, c.server, at(c.serverNow), root, ours)
			client := join(t, c.client, at(c.clientNow), clientRoot, clientBundle)
			serverErr, clientErr := shake(server.Server(certificate.Any(certificate.Gateway)), client.Client(certificate.Only(host)))
			if serverErr == nil || clientErr == nil {
				t.Fatalf("a side takes the connection for good: server %v, client %v", serverErr, clientErr)
			}
			err := serverErr
			if c.refuses == clientRefuses {
				err = clientErr
			}
			refused(t, err, api.Unauthorized, c.parts...)
		})
	}
}

// TestPeersThatAreRefused connects a holder to clients and servers that check nothing, so that only the
// holder can refuse.
func TestPeersThatAreRefused(t *testing.T) {
	t.Parallel()
	root, foreign := newRoot(t, start), newRoot(t, start)
	ours := bundleOf(t, root)
	key := keyOf('p')
	issue := func(root *certificate.Root, issued time.Time) *tls.Certificate {
		request, err := certificate.NewRequest(key)
		if err != nil {
			t.Fatal(err)
		}
		der, err := root.Issue(request, gateway, nil, issued, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return &tls.Certificate{Certificate: [][]byte{der, root.DER()}, PrivateKey: key}
	}
	for name, c := range map[string]struct {
		shown *tls.Certificate
		code  api.Code
		parts []string
	}{
		"expired":       {issue(root, start.Add(-certificate.Life-time.Second)), api.Unauthorized, []string{"was valid until 2026-03-01T11:59:59Z", "it is 2026-03-01T12:00:00Z"}},
		"not valid yet": {issue(root, start.Add(certificate.Slew+time.Second)), api.Unauthorized, []string{"is valid from 2026-03-01T12:00:01Z", "it is 2026-03-01T12:00:00Z"}},
		"another fleet": {issue(foreign, start), api.Unauthorized, []string{"of another fleet", root.Fingerprint()}},
		"a root":        {&tls.Certificate{Certificate: [][]byte{foreign.DER()}, PrivateKey: keyOfRoot(foreign)}, api.Unauthorized, []string{"does not name exactly one member"}},
		"our root":      {&tls.Certificate{Certificate: [][]byte{root.DER()}, PrivateKey: keyOfRoot(root)}, api.Unauthorized, []string{"does not name exactly one member"}},
		"none":          {nil, api.Internal, []string{"certificate"}},
		"slow clock":    {issue(root, start.Add(certificate.Slew)), "", nil},
		"last second":   {issue(root, start.Add(-certificate.Life)), "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := join(t, host, at(start), root, ours)
			peer := &tls.Config{InsecureSkipVerify: true}
			if c.shown != nil {
				peer.Certificates = []tls.Certificate{*c.shown}
			}
			check := func(side string, err error) {
				t.Helper()
				if c.code == "" {
					if err != nil {
						t.Errorf("%s: %v", side, err)
					}
					return
				}
				refused(t, err, c.code, c.parts...)
			}
			serverErr, _ := shake(h.Server(certificate.Any(certificate.Gateway)), peer)
			check("as a client", serverErr)
			if c.shown == nil {
				return // a server always has one
			}
			_, clientErr := shake(peer, h.Client(certificate.Only(gateway)))
			check("as a server", clientErr)
		})
	}
}

func TestMembersConnect(t *testing.T) {
	t.Parallel()
	root := newRoot(t, start)
	ours := bundleOf(t, root)
	server := join(t, host, at(start), root, ours)
	client := join(t, gateway, at(start), root, ours)
	to := client.Client(certificate.Only(host))
	to.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	for range 2 {
		state, serverErr, clientErr := shakeState(server.Server(certificate.Any(certificate.Gateway, certificate.Host)), to)
		if serverErr != nil || clientErr != nil {
			t.Fatal(serverErr, clientErr)
		}
		if state.Version != tls.VersionTLS13 || state.DidResume {
			t.Errorf("TLS version %x, resumed %t", state.Version, state.DidResume)
		}
		if peer, ok := certificate.PeerOf(&state); !ok || peer != gateway {
			t.Errorf("the server sees %s, %t", peer, ok)
		}
	}
	to.MaxVersion = tls.VersionTLS12
	to.MinVersion = tls.VersionTLS12
	if _, err := shake(server.Server(certificate.Any(certificate.Gateway)), to); err == nil {
		t.Error("TLS 1.2 is accepted")
	}
}

// TestFirstJoinNeedsTheRoot lets a host without a certificate connect to a control plane and to impostors.
func TestFirstJoinNeedsTheRoot(t *testing.T) {
	t.Parallel()
	root, foreign := newRoot(t, start), newRoot(t, start)
	control := join(t, plane, at(start), root, bundleOf(t, root))
	door := control.JoinServer(certificate.Any(certificate.Host))

	right := open(t, host, at(start), root.Fingerprint())
	state, serverErr, clientErr := shakeState(door, right.JoinClient())
	if serverErr != nil || clientErr != nil {
		t.Fatal(serverErr, clientErr)
	}
	if peer, ok := certificate.PeerOf(&state); ok {
		t.Errorf("the host has no certificate, and the control plane sees %s", peer)
	}
	_, clientErr = shake(door, right.Client(certificate.Any(certificate.ControlPlane)))
	refused(t, clientErr, api.Unauthorized)

	for _, pin := range []string{"", foreign.Fingerprint()} {
		_, clientErr = shake(door, open(t, host, at(start), pin).JoinClient())
		refused(t, clientErr, api.Unauthorized, root.Fingerprint(), "--fleet-root")
	}

	// The pinned root follows a certificate that it did not issue.
	impostor := join(t, plane, at(start), foreign, bundleOf(t, foreign)).JoinServer(certificate.Any(certificate.Host))
	get := impostor.GetCertificate
	impostor.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		c, err := get(hello)
		if err == nil {
			c.Certificate[1] = root.DER()
		}
		return c, err
	}
	_, clientErr = shake(impostor, right.JoinClient())
	refused(t, clientErr, api.Unauthorized, "of another fleet")

	// A gateway of the fleet answers at the control plane's address.
	other := join(t, gateway, at(start), root, bundleOf(t, root))
	_, clientErr = shake(other.JoinServer(certificate.Any(certificate.Host)), right.JoinClient())
	refused(t, clientErr, api.Unauthorized, gateway.String())

	// After the join only the bundle counts.
	renew(t, right, host, start, root, bundleOf(t, root))
	if serverErr, clientErr = shake(door, right.Client(certificate.Any(certificate.ControlPlane))); serverErr != nil || clientErr != nil {
		t.Fatal(serverErr, clientErr)
	}
	if serverErr, clientErr = shake(door, right.JoinClient()); serverErr != nil || clientErr != nil {
		t.Fatal(serverErr, clientErr)
	}
}

// TestTwoRootsDuringARotation follows the steps of a rotation. Members of the old and the new root connect while both
// are in the bundle.
func TestTwoRootsDuringARotation(t *testing.T) {
	t.Parallel()
	before, after := newRoot(t, start), newRoot(t, start)
	both, last := bundleOf(t, before, after), bundleOf(t, after)
	server := join(t, host, at(start), before, bundleOf(t, before))
	client := join(t, gateway, at(start), before, bundleOf(t, before))
	connect := func(want bool) {
		t.Helper()
		serverErr, clientErr := shake(server.Server(certificate.Any(certificate.Gateway)), client.Client(certificate.Only(host)))
		if ok := serverErr == nil && clientErr == nil; ok != want {
			t.Fatalf("connected: %t, server %v, client %v", ok, serverErr, clientErr)
		}
	}
	connect(true)
	for _, h := range []*certificate.Holder{server, client} { // the new root is published
		if err := h.Accept(h.Member().Identity.ID, nil, both); err != nil {
			t.Fatal(err)
		}
		connect(true)
	}
	// The new root signs. The bundle without the old one makes the server ask for a new certificate at once.
	if err := server.Accept(host.ID, nil, last); err != nil {
		t.Fatal(err)
	}
	connect(false) // the client's certificate is of the old root
	renew(t, server, host, start, after, last)
	connect(false)
	if err := client.Accept(gateway.ID, nil, last); err != nil {
		t.Fatal(err)
	}
	renew(t, client, gateway, start, after, last)
	connect(true)
}

// TestTwoRootsSign checks that a member with a certificate of one root and a member with one of the other
// root connect.
func TestTwoRootsSign(t *testing.T) {
	t.Parallel()
	before, after := newRoot(t, start), newRoot(t, start)
	both := bundleOf(t, before, after)
	server := join(t, host, at(start), before, both)
	client := join(t, gateway, at(start), after, both)
	if serverErr, clientErr := shake(server.Server(certificate.Any(certificate.Gateway)), client.Client(certificate.Only(host))); serverErr != nil || clientErr != nil {
		t.Fatal(serverErr, clientErr)
	}
}
