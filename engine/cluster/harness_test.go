package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/replica"
	"github.com/corvo/corvo/engine/transport"
)

// The tests of this package use these words. A world is a set of machines, their network and the shards of
// all clusters, in virtual time and by a seed. A machine is a node's disk, the node's process while the node
// runs, and the transport of the process. crash ends the process; what the process has written stays. live
// runs the process again after each crash. A shard is a group whose state all its members see at once, so
// that the tests need no Raft. chance draws a number from the seed, and delay passes some time on the
// network. The world remembers every cluster that a disk ever named, because a second foundation is the fault
// that the tests look for.

var (
	silent      = slog.New(slog.NewTextHandler(io.Discard, nil))
	errCrash    = errors.New("crashed")
	testSecret  = "a secret of an operator's own, long enough"
	errNobody   = api.Errorf(api.LeaderUnavailable, "nobody answers")
	testTimeout = time.Minute
)

// world is a set of machines with a network, and the shards of all clusters.
type world struct {
	mu       sync.Mutex
	rand     *rand.Rand
	at       map[string]*machine // by address
	machines []*machine
	shards   map[entry.Incarnation]*shard
	founded  map[string]bool // clusters that were ever created, according to disks
	ports    int
}

func newWorld(seed uint64) *world {
	return &world{rand: rand.New(rand.NewPCG(seed, 0)), at: map[string]*machine{}, shards: map[entry.Incarnation]*shard{}, founded: map[string]bool{}}
}

// machine is one node's machine: its disk, and the process while it runs.
type machine struct {
	w        *world
	id       string
	dir      string
	address  string // of the running process
	fixed    string // its address at every start; "" = a new one each time
	up       bool
	downAt   time.Time
	kill     func() // ends the waiting of the process
	handlers map[transport.Kind]transport.Handler
	crashes  int                 // number of crashes still to come
	groups   []entry.Incarnation // on disk
	learned  map[string]string
	known    map[string]string // keys, by ID
	key      string
}

func (w *world) machine(t *testing.T, id string) *machine {
	m := &machine{w: w, id: id, dir: filepath.Join(t.TempDir(), id)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.machines = append(w.machines, m)
	return m
}

func (w *world) chance(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rand.IntN(n)
}

// addresses returns the running machines' addresses, as DNS would, and sometimes not all of them.
func (w *world) addresses(context.Context) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for a := range w.at {
		if w.rand.IntN(10) > 0 {
			all = append(all, a)
		}
	}
	return all, nil
}

// config starts the machine's process, at a new address unless the machine has a fixed one.
func (m *machine) config(cfg Config) Config {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.w.ports++
	if m.address = m.fixed; m.address == "" {
		m.address = fmt.Sprintf("10.0.0.1:%d", m.w.ports)
	}
	m.up, m.handlers, m.learned = true, map[transport.Kind]transport.Handler{}, map[string]string{}
	m.known = map[string]string{}
	m.w.at[m.address] = m
	m.kill = func() {}
	cfg.DataDir, cfg.NodeID, cfg.Listener, cfg.Logger = m.dir, m.id, deaf{}, silent
	cfg.Advertise, cfg.Token, cfg.Level = m.address, testSecret, max(cfg.Level, 1)
	cfg.open = func(of transport.Config) (wire, error) {
		m.w.mu.Lock()
		defer m.w.mu.Unlock()
		m.key = of.Key
		return m, nil
	}
	cfg.persist = m.persist
	return cfg
}

// crash ends the process, which loses everything it has not written.
func (m *machine) crash() {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.down()
}

func (m *machine) down() {
	if m.up {
		m.up, m.downAt = false, time.Now()
		delete(m.w.at, m.address)
		m.kill()
	}
}

// persist writes the record without syncing it. While m.crashes is above 0, it may crash before or after the
// write.
func (m *machine) persist(dir string, r *record) error {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	when := 0
	if m.crashes > 0 {
		when = m.w.rand.IntN(4)
	}
	if !m.up || when == 1 {
		m.crashed()
		return errCrash
	}
	data := encodeRecord(r)
	if err := os.WriteFile(filepath.Join(dir, recordName), data, 0o600); err != nil {
		return err
	}
	if r.Phase == founding {
		m.w.founded[r.Cluster] = true
	}
	if when == 2 {
		m.crashed()
		return errCrash
	}
	return nil
}

func (m *machine) crashed() {
	m.crashes--
	m.down()
}

// machine implements wire.
func (m *machine) Address() string {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	return m.address
}
func (m *machine) Close() error { m.crash(); return nil }
func (m *machine) Handle(k transport.Kind, h transport.Handler) {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.handlers[k] = h
}
func (m *machine) HandleAny(k transport.Kind, h transport.Handler) { m.Handle(k, h) }
func (m *machine) Know(id, key string) {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.known[id] = key
}

func (m *machine) Impostor(from transport.Peer) bool {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	known := m.known[from.ID]
	return known != "" && known != from.Key
}
func (m *machine) Learn(id, address string) {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.learned[id] = address
}
func (m *machine) AddressOf(id string) string {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	return m.learned[id]
}
func (m *machine) Peers() []transport.PeerStatus { return nil }

// Call takes some time each way, and never returns an answer once either end is down.
func (m *machine) Call(ctx context.Context, to transport.Peer, k transport.Kind, request []byte) ([]byte, error) {
	if to.Address == "" {
		to.Address = m.AddressOf(to.ID)
	}
	m.w.delay(ctx)
	m.w.mu.Lock()
	peer := m.w.at[to.Address]
	mine, key, ok := m.address, m.key, m.up && peer != nil && (to.ID == "" || to.ID == peer.id)
	var h transport.Handler
	if ok {
		h = peer.handlers[k]
		if known := peer.known[m.id]; known == "" || known == m.key {
			peer.learned[m.id] = m.address
		}
		if known := m.known[peer.id]; known != "" && known != peer.key {
			h = nil
		} else {
			m.learned[peer.id] = peer.address
		}
	}
	m.w.mu.Unlock()
	if h == nil {
		return nil, errNobody
	}
	answer, err := h(ctx, transport.Peer{ID: m.id, Address: mine, Key: key}, request)
	m.w.delay(ctx)
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	gone := !m.up || m.address != mine || m.w.at[to.Address] != peer
	if gone || ctx.Err() != nil {
		return nil, errNobody
	}
	return answer, err
}

func (w *world) delay(ctx context.Context) {
	sleep(ctx, time.Duration(w.chance(200))*time.Millisecond)
}

// deaf is a listener that no process reaches.
type deaf struct{}

func (deaf) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (deaf) Close() error              { return nil }
func (deaf) Addr() net.Addr            { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1} }

// shard is a group whose state all its members see at once.
type shard struct {
	w       *world
	members map[string]engine.Member
	voted   []string // members that opened the group with an empty disk
}

// group is a member's view of a shard.
type group struct {
	m           *machine
	incarnation entry.Incarnation
}

func (g *group) shard() *shard { return g.m.w.shards[g.incarnation] }

// openGroups does the work of a process between Open and Start.
func (m *machine) openGroups(c *Cluster) []Group {
	join, n := c.Join(), c.Shards()
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	for i := len(m.groups); i < n; i++ {
		var inc entry.Incarnation
		if join != nil {
			inc = join[i]
			if s := m.w.shards[inc]; s.members[m.id].ID != "" {
				s.voted = append(s.voted, m.id)
			}
		} else {
			for j := range inc {
				inc[j] = byte(m.w.rand.Uint32())
			}
			m.w.shards[inc] = &shard{w: m.w, members: map[string]engine.Member{m.id: {ID: m.id, Address: m.address, Voter: true}}}
		}
		m.groups = append(m.groups, inc)
	}
	var all []Group
	for _, inc := range m.groups {
		all = append(all, &group{m, inc})
	}
	return all
}

// leader returns the first member that runs and has its groups on disk; "" = none. The caller holds w.mu.
func (s *shard) leader() string {
	for _, m := range s.w.machines {
		if _, ok := s.members[m.id]; ok && m.up && len(m.groups) > 0 {
			return m.id
		}
	}
	return ""
}

func (g *group) LeaderID() string {
	g.m.w.mu.Lock()
	defer g.m.w.mu.Unlock()
	return g.shard().leader()
}

func (g *group) Members() (all []engine.Member) {
	g.m.w.mu.Lock()
	defer g.m.w.mu.Unlock()
	for _, m := range g.m.w.machines {
		member, ok := g.shard().members[m.id]
		if !ok {
			continue
		}
		if !m.up || len(m.groups) == 0 {
			member.LastContact = time.Since(m.downAt)
		}
		all = append(all, member)
	}
	return all
}

func (g *group) change(f func(members map[string]engine.Member)) error {
	g.m.w.delay(context.Background())
	g.m.w.mu.Lock()
	defer g.m.w.mu.Unlock()
	if !g.m.up || g.shard().leader() == "" {
		return errNobody
	}
	f(g.shard().members)
	return nil
}

func (g *group) AddLearner(_ context.Context, id, address string) error {
	return g.change(func(members map[string]engine.Member) {
		members[id] = engine.Member{ID: id, Address: address, Voter: true} // promoted at once
	})
}

func (g *group) Remove(_ context.Context, id string) error {
	return g.change(func(members map[string]engine.Member) { delete(members, id) })
}

func (g *group) Transfer(context.Context, string) error { return nil }

func (g *group) Status() (engine.Status, error) {
	return engine.Status{Incarnation: g.incarnation, NodeID: g.m.id, Status: replica.Status{}}, nil
}

// live runs the machine's process and restarts it after crashes, until ctx ends.
func (m *machine) live(ctx context.Context, cfg func() Config) error {
	for ctx.Err() == nil {
		of := m.config(cfg())
		process, kill := context.WithCancel(ctx)
		m.w.mu.Lock()
		m.kill = kill
		m.w.mu.Unlock()
		c, err := Open(process, of)
		if err == nil {
			if err = c.Start(m.openGroups(c)); err == nil {
				for m.alive() && ctx.Err() == nil {
					sleep(ctx, time.Second)
				}
			}
			_ = c.Close() // the process has ended
		}
		over := process.Err() != nil
		kill()
		if err != nil && !errors.Is(err, errCrash) && !over {
			return fmt.Errorf("%s: %w", m.id, err)
		}
		sleep(ctx, time.Duration(m.w.chance(5000))*time.Millisecond)
	}
	return nil
}

func (m *machine) alive() bool {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	return m.up
}
