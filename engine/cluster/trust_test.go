package cluster

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/engine/transport"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	minted, err := createSecret()
	if err != nil {
		t.Fatal(err)
	}
	other, err := createSecret()
	if err != nil {
		t.Fatal(err)
	}
	again, err := readSecret("\n" + minted.text + " \n")
	if err != nil || !bytes.Equal(again.key, minted.key) || again.text != minted.text {
		t.Errorf("read again: %v, %v", again, err)
	}
	if minted.text == other.text {
		t.Error("two tokens are the same")
	}
	for _, good := range []string{strings.Repeat("x", MinToken), strings.Repeat("x", MaxToken)} {
		if _, err := readSecret(good); err != nil {
			t.Errorf("%d bytes: %v", len(good), err)
		}
	}
	swapped := minted.text[:len(tokenPrefix)] + "zz" + minted.text[len(tokenPrefix)+2:]
	for _, bad := range []string{
		"", strings.Repeat("x", MinToken-1), strings.Repeat("x", MaxToken+1),
		minted.text[:len(minted.text)-1], minted.text + "a", swapped, tokenPrefix + strings.Repeat("a", 60),
	} {
		if _, err := readSecret(bad); api.CodeOf(err) != api.ValidationError {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestTheTokenFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := loadSecret(dir, "", false); api.CodeOf(err) != api.ValidationError {
		t.Errorf("a joiner without a token: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, TokenFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it left %v", err)
	}
	minted, err := loadSecret(dir, "", true)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, TokenFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	for _, given := range []string{"", minted.text} {
		if again, err := loadSecret(dir, given, true); err != nil || again.text != minted.text {
			t.Errorf("given %q: %v, %v", given, again, err)
		}
	}
	if _, err := loadSecret(dir, testSecret, true); api.CodeOf(err) != api.Conflict {
		t.Errorf("another secret: %v", err)
	}
}

// TestTheAuthorityIsDerivedFromTheSecretAlone checks that the authority is the same to the byte wherever and
// whenever it is derived, because members share only the secret. This holds for all later versions too.
func TestTheAuthorityIsDerivedFromTheSecretAlone(t *testing.T) {
	t.Parallel()
	a, err := newAuthority([]byte(testSecret))
	if err != nil {
		t.Fatal(err)
	}
	const want = "c86cd63faec7301ebcb01dc5a9b16e1843a562ef9f489181cee07cf77b6345d0"
	if got := a.fingerprint(); got != want {
		t.Errorf("fingerprint %s, want %s", got, want)
	}
	b, err := newAuthority([]byte(testSecret + "x"))
	if err != nil {
		t.Fatal(err)
	}
	if a.fingerprint() == b.fingerprint() {
		t.Error("two secrets, one authority")
	}
}

// shake performs a handshake between a client and a server.
func shake(t *testing.T, client, server *tls.Config) (clientErr, serverErr error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	served := make(chan error, 1)
	go func() {
		b, err := listener.Accept()
		if err != nil {
			served <- err
			return
		}
		defer b.Close()
		conn := tls.Server(b, server)
		if err = conn.HandshakeContext(t.Context()); err == nil {
			_, err = conn.Write([]byte{1})
		}
		served <- err
	}()
	a, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn := tls.Client(a, client)
	if clientErr = conn.HandshakeContext(t.Context()); clientErr == nil {
		_, clientErr = conn.Read(make([]byte, 1)) // the server's result
	}
	a.Close()
	return clientErr, <-served
}

func testIdentity(t *testing.T, token, id string, now func() time.Time) *identity {
	t.Helper()
	s, err := readSecret(token)
	if err != nil {
		t.Fatal(err)
	}
	key, err := (&record{Key: createKey()}).privateKey()
	if err != nil {
		t.Fatal(err)
	}
	i, err := newIdentity(s, id, key, now)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// TestOnlyMembersSpeak connects two processes, one of which shows a certificate that the other must refuse. The error of the
// refusing side says why. A side that is lax verifies nothing, so that only the other side can refuse.
func TestOnlyMembersSpeak(t *testing.T) {
	t.Parallel()
	good := func(id string) *identity { return testIdentity(t, testSecret, id, time.Now) }
	ahead := func(id string, by time.Duration) *identity {
		return testIdentity(t, testSecret, id, func() time.Time { return time.Now().Add(by) })
	}
	const expired, early = -certificateLife - time.Minute, certificateSlew + time.Minute
	foreign := testIdentity(t, testSecret+"x", "peer", time.Now)
	part := fleetCertificate(t)
	for name, c := range map[string]struct {
		client, server         *tls.Config
		clientSays, serverSays string // "" = this side does not refuse
	}{
		"a member":                 {good("client").Client("server"), good("server").Server(), "", ""},
		"whoever answers":          {good("client").Client(""), good("server").Server(), "", ""},
		"not who was meant":        {good("client").Client("other"), good("server").Server(), `node "server" answers where node "other" was expected: has its address been given to another?`, ""},
		"a server with no name":    {good("client").Client(""), good("").Server(), "names no node", ""},
		"a client with no name":    {lax(good("").Client("")), good("server").Server(), "", "names no node"},
		"a server's other secret":  {good("client").Client("server"), lax(foreign.Server()), "another join token: give all nodes", ""},
		"a client's other secret":  {lax(foreign.Client("server")), good("server").Server(), "", "another join token: give all nodes"},
		"an expired server":        {good("client").Client("server"), lax(ahead("server", expired).Server()), "not valid now: set the clocks of both machines", ""},
		"an expired client":        {lax(ahead("client", expired).Client("server")), good("server").Server(), "", "not valid now: set the clocks of both machines"},
		"a server before its time": {good("client").Client("server"), lax(ahead("server", early).Server()), "not valid now: set the clocks of both machines", ""},
		"a client before its time": {lax(ahead("client", early).Client("server")), good("server").Server(), "", "not valid now: set the clocks of both machines"},
		"a host of the fleet":      {&tls.Config{InsecureSkipVerify: true, Certificates: part}, good("server").Server(), "", "another join token"},
		"a host that answers":      {good("client").Client("server"), &tls.Config{Certificates: part}, "another join token", ""},
		"no certificate":           {&tls.Config{InsecureSkipVerify: true}, good("server").Server(), "", "didn't provide a certificate"},
		"old TLS": {&tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12,
			GetClientCertificate: good("c").Client("").GetClientCertificate}, good("server").Server(), "", "unsupported versions"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clientErr, serverErr := shake(t, c.client, c.server)
			if refused := c.clientSays+c.serverSays != ""; (clientErr != nil) != refused {
				t.Fatalf("the client: %v, the server: %v", clientErr, serverErr)
			}
			for says, err := range map[string]error{c.clientSays: clientErr, c.serverSays: serverErr} {
				if says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
					t.Errorf("%v does not say %q", err, says)
				}
			}
			if c.clientSays != "" && api.CodeOf(clientErr) != api.Unauthorized {
				t.Errorf("the client's error has the code %s", api.CodeOf(clientErr))
			}
		})
	}
}

// lax removes the checks from a configuration. The side still shows its certificate.
func lax(c *tls.Config) *tls.Config {
	c.VerifyConnection = nil
	return c
}

// fleetCertificate returns the certificate of a host of a fleet, which another authority issues (ADR 0068).
func fleetCertificate(t *testing.T) []tls.Certificate {
	t.Helper()
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	root, err := certificate.NewRoot(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request, err := certificate.NewRequest(key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := root.Issue(request, certificate.Identity{Kind: certificate.Host, ID: "host_1", Store: "store_1"}, nil, time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
}

func TestCertificatesAreRenewedInTime(t *testing.T) {
	t.Parallel()
	at := time.Now()
	i := testIdentity(t, testSecret, "n", func() time.Time { return at })
	first, err := i.certificate()
	if err != nil {
		t.Fatal(err)
	}
	at = first.Leaf.NotAfter.Add(-certificateLife/2 - time.Second)
	if same, err := i.certificate(); err != nil || same != first {
		t.Errorf("renewed before half of its life: %v", err)
	}
	at = at.Add(2 * time.Second)
	second, err := i.certificate()
	if err != nil || second == first || !second.Leaf.NotAfter.After(first.Leaf.NotAfter) {
		t.Errorf("not renewed after half of its life: %v", err)
	}
	if transport.KeyOf(first.Leaf) != transport.KeyOf(second.Leaf) {
		t.Error("the others would take the node for another process after its certificate was renewed")
	}
}

func TestAdvertise(t *testing.T) {
	t.Parallel()
	ip := func(s string) net.Addr { return &net.IPNet{IP: net.ParseIP(s), Mask: net.CIDRMask(8, 32)} }
	machine := []net.Addr{ip("127.0.0.1"), ip("fe80::1"), ip("2001:db8::1"), ip("10.1.2.3"), ip("10.1.2.4")}
	for _, c := range []struct {
		given, listens string
		machine        []net.Addr
		want           string
		warns, fails   bool
	}{
		{"", "192.0.2.1:9400", machine, "192.0.2.1:9400", false, false},
		{"", "0.0.0.0:9400", machine, "10.1.2.3:9400", false, false},
		{"", "[::]:9400", machine, "10.1.2.3:9400", false, false},
		{"", "[::]:9400", machine[:3], "[2001:db8::1]:9400", false, false},
		{"", "[::]:9400", machine[:2], "127.0.0.1:9400", true, false},
		{"node-1", "[::]:9400", machine, "node-1:9400", false, false},
		{"node-1:7", "[::]:9400", machine, "node-1:7", false, false},
		{"::1", "[::]:9400", machine, "[::1]:9400", false, false},
		{"0.0.0.0:9400", "[::]:9400", machine, "", false, true},
		{"[::]:9400", "[::]:9400", machine, "", false, true},
		{":9400", "[::]:9400", machine, "", false, true},
	} {
		at, err := net.ResolveTCPAddr("tcp", c.listens)
		if err != nil {
			t.Fatal(err)
		}
		got, warning, err := advertise(c.given, at, func() ([]net.Addr, error) { return c.machine, nil })
		if got != c.want || (warning != "") != c.warns || (err != nil) != c.fails {
			t.Errorf("%q on %s: %q, %q, %v", c.given, c.listens, got, warning, err)
		}
	}
}
