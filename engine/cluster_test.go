package engine_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/raftlog"
	"github.com/corvo/corvo/engine/replica"
	"github.com/corvo/corvo/engine/transport"
	"github.com/corvo/corvo/engine/transport/memnet"
)

// cluster is a group of several members in this process, each with its own transport and directory.
type cluster struct {
	t       testing.TB
	net     *memnet.Net // nil = TCP
	trust   *authority
	history *entry.Incarnation
	tune    []func(*engine.Config)
	members []*member
}

// member is one member of a cluster, running or not.
type member struct {
	*node
	cluster   *cluster
	id        string
	dir       string
	address   string
	transport *transport.Transport
	off       atomic.Int64 // offset of its host's clock, in nanoseconds
}

// soon returns a context with the deadline for anything that must happen; only a failing test reaches it.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// newCluster creates a group with the given number of voters.
func newCluster(t testing.TB, on *memnet.Net, voters int, tune ...func(*engine.Config)) *cluster {
	t.Helper()
	c := &cluster{t: t, net: on, trust: newAuthority(t), tune: tune}
	t.Cleanup(c.close)
	for range voters {
		m := c.add()
		m.start()
		if len(c.members) == 1 {
			if err := m.Ready(soon(t)); err != nil {
				t.Fatal(err)
			}
			s, err := m.Status()
			if err != nil {
				t.Fatal(err)
			}
			c.history = &s.Incarnation
			continue
		}
		c.must(c.members[0].AddLearner(soon(t), m.id, m.address))
		c.must(c.members[0].Promote(soon(t), m.id))
		c.must(m.Ready(soon(t)))
	}
	// A voter that has not yet heard that another has a vote refuses to vote for it. If the leader were lost
	// just then, no other member could replace it until it is back.
	for _, m := range c.members {
		c.must(m.Verify(soon(t)))
	}
	return c
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// add creates one more member, named by a letter, and does not start it.
func (c *cluster) add() *member {
	m := &member{cluster: c, id: string(rune('a' + len(c.members)))}
	m.dir = filepath.Join(c.t.TempDir(), m.id)
	c.members = append(c.members, m)
	return m
}

// now returns the clock of the member's host.
func (m *member) now() time.Time { return time.Now().Add(time.Duration(m.off.Load())) }

// start opens the member's transport, under its previous address, and its group.
func (m *member) start() {
	m.cluster.t.Helper()
	m.cluster.must(m.tryStart())
}

func (m *member) tryStart() error {
	c := m.cluster
	listener, dial, err := c.listen(m)
	if err != nil {
		return err
	}
	m.address = listener.Addr().String()
	m.transport, err = transport.Open(transport.Config{
		NodeID: m.id, Listener: listener, Identity: c.trust.identity(m.id), Dial: dial, Now: m.now, Logger: quiet(),
	})
	if err != nil {
		return err
	}
	tune := append([]func(*engine.Config){func(conf *engine.Config) {
		conf.Now = m.now
		conf.Transport, conf.Codec = m.transport, codec{}
		conf.Logs = c.logs()
		if m.id != c.members[0].id {
			conf.Join = c.history
		}
	}}, c.tune...)
	m.node, err = tryOpenNode(c.t, m.dir, tune...)
	if err != nil {
		return errors.Join(err, m.transport.Close())
	}
	return nil
}

// logs opens the logs of all members.
func (c *cluster) logs() *raftlog.Factory {
	return &raftlog.Factory{SegmentBytes: raftlog.MinSegmentBytes, NoSync: true, Logger: replica.NewLogger(quiet())}
}

func (c *cluster) listen(m *member) (net.Listener, func(context.Context, string) (net.Conn, error), error) {
	if c.net == nil {
		address := m.address
		if address == "" {
			address = "127.0.0.1:0"
		}
		l, err := net.Listen("tcp", address)
		return l, nil, err
	}
	port := 0
	if m.address != "" {
		if _, err := fmt.Sscanf(m.address, m.id+":%d", &port); err != nil {
			return nil, nil, err
		}
	}
	l, err := c.net.Listen(m.id, port)
	return l, c.net.Dialer(m.id), err
}

// stop closes the member in good order.
func (m *member) stop() {
	m.cluster.t.Helper()
	m.shut(m.cluster.t)
	m.cluster.must(m.transport.Close())
	m.node = nil
}

// kill stops the member so that its machine loses everything it had not flushed, and no other member is
// notified.
func (m *member) kill() {
	m.cluster.t.Helper()
	m.cluster.must(m.transport.Close())
	m.crash(m.cluster.t)
	m.node = nil
}

func (c *cluster) close() {
	for _, m := range c.members {
		if m.node != nil {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			_ = m.Close(ctx) // tests that need the result have checked it
			cancel()
			c.must(m.transport.Close())
		}
	}
}

// leader waits until a running member leads and serves.
func (c *cluster) leader() *member {
	c.t.Helper()
	return c.leaderOf(c.members...)
}

func (c *cluster) leaderOf(among ...*member) *member {
	c.t.Helper()
	var leader *member
	c.until("there is a leader", func() bool {
		for _, m := range among {
			if m.node != nil && m.Leader() {
				leader = m
				return true
			}
		}
		return false
	})
	return leader
}

// until polls a condition that has no event.
func (c *cluster) until(what string, is func() bool) {
	c.t.Helper()
	for ctx := soon(c.t); !is(); {
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			for _, m := range c.members {
				if m.node != nil {
					s, err := m.Status()
					c.t.Logf("%s: %s term %d leader %q last %d commit %d applied %d, %d members, %v, failed: %v", m.id, s.State, s.Term, s.LeaderID, s.Last, s.Commit, s.Applied.Index, len(s.Members), err, m.Err())
				}
			}
			c.t.Fatalf("in vain: %s", what)
		}
	}
}

// others returns all members but one.
func (c *cluster) others(than *member) (rest []*member) {
	for _, m := range c.members {
		if m != than {
			rest = append(rest, m)
		}
	}
	return rest
}

func (m *member) propose(o op) (int64, engine.Position, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return engine.Propose[int64](ctx, m.Group, o)
}

// codec encodes the test machine's ops. Only opOnce finds its own effect.
type codec struct{}

func (codec) Decode(o entry.Op) (engine.Op, error) {
	return op{number: o.Number, key: string(o.Bytes)}, nil
}

func (codec) EncodeResult(_ entry.Number, result any) ([]byte, error) {
	if _, ok := result.(large); ok {
		return make([]byte, transport.MaxCall), nil
	}
	n, ok := result.(int64)
	if !ok {
		return nil, fmt.Errorf("a result of type %T", result)
	}
	return binary.AppendVarint(nil, n), nil
}

func (codec) DecodeResult(_ entry.Number, data []byte) (any, error) {
	n, size := binary.Varint(data)
	if size <= 0 {
		return nil, errors.New("cut short")
	}
	return n, nil
}

// large is a result that is too large for a message.
type large int64

func (codec) Repeats(o engine.Op) bool { return o.Number() == opOnce }

// once returns an op that adds 1 to a counter, however often it is applied.
func once(key, id string) op { return op{number: opOnce, key: key + "/" + id} }

// applyOnce applies opOnce.
func (c *content) applyOnce(text string) int64 {
	key, _, _ := strings.Cut(text, "/")
	if c.Counters["seen/"+text] == 0 {
		c.Counters["seen/"+text] = 1
		c.Counters[key]++
	}
	return c.Counters[key]
}

// authority signs the certificates of a cluster's members.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  ed25519.PrivateKey
	pool *x509.CertPool
}

// The certificates are also valid in the year 2000, because testing/synctest begins there.
var (
	certsFrom  = time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)
	certsUntil = time.Date(2090, 1, 1, 0, 0, 0, 0, time.UTC)
)

func newAuthority(t testing.TB) *authority {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{t: t, key: key, pool: x509.NewCertPool()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: certsFrom, NotAfter: certsUntil,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert = a.sign(template, template, key.Public())
	a.pool.AddCert(a.cert)
	return a
}

func (a *authority) sign(template, parent *x509.Certificate, public any) *x509.Certificate {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert
}

func (a *authority) identity(id string) identity {
	a.t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	cert := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: id}, NotBefore: certsFrom, NotAfter: certsUntil,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		DNSNames: []string{id},
	}, a.cert, public)
	return identity{pool: a.pool, own: tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}
}

// identity is a member's side of mutual TLS.
type identity struct {
	pool *x509.CertPool
	own  tls.Certificate
}

func (i identity) Server() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{i.own}, ClientCAs: i.pool, ClientAuth: tls.RequireAndVerifyClientCert}
}

func (i identity) NodeID(c *x509.Certificate) string { return c.Subject.CommonName }

func (i identity) Client(peerID string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{i.own},
		InsecureSkipVerify: true, // the chain and the name are checked below
		VerifyConnection: func(s tls.ConnectionState) error {
			leaf := s.PeerCertificates[0]
			if _, err := leaf.Verify(x509.VerifyOptions{Roots: i.pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
				return err
			}
			if peerID != "" && leaf.Subject.CommonName != peerID {
				return fmt.Errorf("%s answers where %s was called", leaf.Subject.CommonName, peerID)
			}
			return nil
		},
	}
}
