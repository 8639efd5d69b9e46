package controlplane

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/cluster"
	"github.com/corvo/corvo/tenancy/keyring"
)

// startPlanes opens a control plane of n processes, each a plane of its own, and waits until all are voters. Hosts
// that the first one starts know all of them.
func startPlanes(t *testing.T, n int) []*plane {
	t.Helper()
	var all []*plane
	for i := range n {
		of := &cluster.Config{Token: strings.Repeat("t", cluster.MinToken), Bootstrap: i == 0, Listener: newAddress(t).listen()}
		if i > 0 {
			of.Join = []string{all[0].cluster.Address()}
		}
		all = append(all, startPlane(t, func(c *Config) {
			c.NodeID, c.Cluster = fmt.Sprintf("control-%d", i+1), of
			c.Engine.Autopilot = &engine.Autopilot{StableAfter: 10 * time.Millisecond}
			c.Engine.Heartbeat = time.Second // so that the lead stays on a busy machine
		}))
	}
	var urls []string
	for _, p := range all {
		urls = append(urls, p.front.URL)
	}
	all[0].urls = strings.Join(urls, ",")
	until(t, "all processes have a vote", func() bool { return voters(all[0]) == n })
	for i, p := range all {
		// A process that has applied its own write has applied the last change of the membership. Before that it
		// could not take a snapshot, and would close with an error.
		if _, err := p.cloud(p.operator).CreateOrg(t.Context(), api.CreateOrgRequest{Name: fmt.Sprintf("of-%d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// address is a listener that stays open while the process behind it is closed and opened again. A process at another
// address each time was rejected, because hashicorp/raft races with itself when a member's address changes.
type address struct {
	net.Listener
	mu   sync.Mutex
	open *opening // nil = the process is closed
}

// opening is the listener of one open process.
type opening struct {
	of     *address
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newAddress(t *testing.T) *address {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := &address{Listener: l}
	var running sync.WaitGroup
	running.Go(a.pass)
	t.Cleanup(func() { l.Close(); running.Wait() })
	return a
}

// pass hands connections to the open process, and closes those that come while there is none.
func (a *address) pass() {
	for {
		conn, err := a.Accept()
		if err != nil {
			return
		}
		a.mu.Lock()
		o := a.open
		a.mu.Unlock()
		if o == nil {
			conn.Close()
			continue
		}
		select {
		case o.conns <- conn:
		case <-o.closed:
			conn.Close()
		}
	}
}

// listen returns the listener for the process that opens next.
func (a *address) listen() net.Listener {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open = &opening{of: a, conns: make(chan net.Conn), closed: make(chan struct{})}
	return a.open
}

func (o *opening) Accept() (net.Conn, error) {
	select {
	case conn := <-o.conns:
		return conn, nil
	case <-o.closed:
		return nil, net.ErrClosed
	}
}

func (o *opening) Addr() net.Addr { return o.of.Addr() }

func (o *opening) Close() error {
	o.once.Do(func() {
		o.of.mu.Lock()
		defer o.of.mu.Unlock()
		close(o.closed)
		if o.of.open == o {
			o.of.open = nil
		}
	})
	return nil
}

func voters(p *plane) (n int) {
	for _, m := range p.store.Group().Members() {
		if m.Voter {
			n++
		}
	}
	return n
}

// leaderOf returns the leading plane and the others.
func leaderOf(t *testing.T, all []*plane) (leader *plane, rest []*plane) {
	t.Helper()
	until(t, "a process leads", func() bool {
		leader, rest = nil, nil
		for _, p := range all {
			if _, leads := p.store.LeadingTerm(); leads && !p.down.Load() {
				leader = p
				continue
			}
			rest = append(rest, p)
		}
		return leader != nil
	})
	return leader, rest
}

// inOneTerm calls check with the leading process and the others, and reports its error. If the lead moved meanwhile,
// as it may on a busy machine, inOneTerm calls check again, because the error says nothing about followers then.
func inOneTerm(t *testing.T, all []*plane, check func(leader *plane, followers []*plane) error) {
	t.Helper()
	var err error
	until(t, "one process leads for the whole check", func() bool {
		leader, followers := leaderOf(t, all)
		before, _ := leader.store.LeadingTerm()
		err = check(leader, followers)
		after, leads := leader.store.LeadingTerm()
		return leads && before == after
	})
	if err != nil {
		t.Error(err)
	}
}

// The test asks the followers of a control plane. They forward writes, answer reads with every acknowledged
// change, and leave to the leader what depends on the reports of hosts.
func TestFollowersServe(t *testing.T) {
	t.Parallel()
	all := startPlanes(t, 3)
	leader, followers := leaderOf(t, all)
	leader.startHost("h1", keyring.Host)
	org, admin := followers[0].org("acme")

	// Each process reads at once what another has written.
	for i := range 6 {
		by, at := all[i%3], all[(i+1)%3]
		made, err := by.cloud(admin).CreateNamespace(t.Context(), org.ID, api.CreateNamespaceRequest{Name: fmt.Sprintf("n%d", i)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := at.cloud(admin).Namespace(t.Context(), made.Resource.ID); err != nil {
			t.Errorf("another process does not know a namespace that was just created: %v", err)
		}
		if _, err := at.cloud(admin).WaitOperation(t.Context(), made.ID); err != nil {
			t.Errorf("the operation: %v", err)
		}
	}
	// A token that was revoked through one process opens no other.
	made, err := leader.cloud(leader.operator).CreateToken(t.Context(), org.ID, api.CreateCloudKeyRequest{CreateKeyRequest: api.CreateKeyRequest{Name: "k", Roles: []string{"admin"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := followers[0].cloud(admin).RevokeToken(t.Context(), org.ID, made.ID, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := followers[1].cloud(made.APIKey).Org(t.Context(), org.ID); api.CodeOf(err) != api.Unauthorized {
		t.Errorf("a revoked token: %v", err)
	}
	// The followers follow the leader's signing keys, and leave to it what depends on reports.
	inOneTerm(t, all, func(leader *plane, followers []*plane) error {
		term, _ := leader.store.LeadingTerm()
		before, _ := leader.signer.Trusted()
		if err := leader.signer.Rotate(t.Context(), term); err != nil {
			return fmt.Errorf("the leader rotates keys: %w", err)
		}
		for _, p := range followers {
			until(t, "a follower publishes the new key", func() bool { set, _ := p.signer.Trusted(); return set.Len() > before.Len() })
			if err := p.signer.Rotate(t.Context(), term); api.CodeOf(err) != api.LeaderUnavailable {
				return fmt.Errorf("a follower rotates keys: %w", err)
			}
			if _, err := p.cloud(p.operator).Hosts(t.Context()); api.CodeOf(err) != api.LeaderUnavailable {
				return fmt.Errorf("a follower lists the hosts without their reports: %w", err)
			}
			if got, want := p.FleetRoot(), leader.FleetRoot(); got != want {
				return fmt.Errorf("a follower has the fleet's root %s, and the leader has %s", got, want)
			}
		}
		if hosts, err := leader.cloud(leader.operator).Hosts(t.Context()); err != nil || len(hosts) != 1 {
			return fmt.Errorf("the hosts: %+v, %w", hosts, err)
		}
		return nil
	})
}

// Only the leader takes reports and says that changes are lost. A follower streams documents.
func TestFollowersStreamAndTakeNoReports(t *testing.T) {
	t.Parallel()
	all := startPlanes(t, 3)
	leader, followers := leaderOf(t, all)
	leader.startHost("h1", keyring.Host)
	follower := followers[len(followers)-1] // never all[0], whose gateways know all processes
	gateway := follower.startHost("g1", keyring.Gateway)
	org, admin := leader.org("acme")
	ns := leader.namespace(leader.cloud(admin), org.ID, "orders")
	until(t, "the gateway of a follower has the document", func() bool { d, _ := gateway.doc(ns.ID); return d.Ready })

	inOneTerm(t, all, func(leader *plane, followers []*plane) error {
		if _, err := gateway.member.Report(t.Context(), wire.Report{}); leader != follower && api.CodeOf(err) != api.LeaderUnavailable {
			return fmt.Errorf("a follower takes a report: %w", err)
		}
		for p, want := range map[*plane]api.Code{leader: api.StateConflict, followers[0]: api.LeaderUnavailable} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.front.URL+wire.DocsPath+"?after=1000000", nil)
			if err != nil {
				return err
			}
			request.Header.Set("Authorization", "Bearer "+gateway.member.Token())
			if got := codeOf(t, request); got != want {
				return fmt.Errorf("a gateway with newer documents hears %s, want %s", got, want)
			}
		}
		return nil
	})
}

// codeOf returns the code of a request's error.
func codeOf(t *testing.T, request *http.Request) api.Code {
	t.Helper()
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var body struct{ Code api.Code }
	if err := json.NewDecoder(answer.Body).Decode(&body); err != nil {
		t.Fatal(err)
	}
	return body.Code
}

// The leader stops while a namespace is created. Another process leads with every acknowledged change, the host and
// the gateway go on there, and the operation ends. The first process comes back as a follower. Without a majority nothing
// is answered, and everything goes on with it.
func TestAnotherProcessLeads(t *testing.T) {
	t.Parallel()
	all := startPlanes(t, 3)
	leader, rest := leaderOf(t, all)
	h, g := all[0].startHost("h1", keyring.Host), all[0].startHost("g1", keyring.Gateway)
	org, admin := leader.org("acme")
	clients := map[*plane]*client.Cloud{}
	for _, p := range all {
		clients[p] = p.cloud(admin)
	}
	op, err := clients[leader].CreateNamespace(t.Context(), org.ID, api.CreateNamespaceRequest{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	leader.close()
	second, _ := leaderOf(t, rest)
	third := rest[0]
	if third == second {
		third = rest[1]
	}
	for _, p := range rest {
		if _, err := clients[p].Namespace(t.Context(), op.Resource.ID); err != nil {
			t.Errorf("after the leader's end: %v", err)
		}
		if o, err := clients[p].WaitOperation(t.Context(), op.ID); err != nil || o.Status != api.OperationDone {
			t.Errorf("the operation: %+v, %v", o, err)
		}
	}
	for _, m := range []*host{h, g} {
		until(t, "a member has the document", func() bool { d, _ := m.doc(op.Resource.ID); return d.Ready })
	}

	lone := third.startHost("g2", keyring.Gateway)
	second.close()
	until(t, "a process that reaches no leader ends its streams", func() bool { return !lone.member.Connected() })
	once, err := client.NewCloud(third.front.URL, admin, client.WithRetries(0), client.WithTimeout(waitLimit))
	if err != nil {
		t.Fatal(err)
	}
	defer once.Close()
	if _, err := once.Org(t.Context(), org.ID); api.CodeOf(err) != api.LeaderUnavailable {
		t.Errorf("a process without a majority answers %v", err)
	}
	rejoin(leader)
	until(t, "two processes serve", func() bool { _, err := clients[third].Org(t.Context(), org.ID); return err == nil })
	until(t, "its stream is back", lone.member.Connected)
	rejoin(second)
	for i, p := range all {
		if _, err := clients[p].CreateNamespace(t.Context(), org.ID, api.CreateNamespaceRequest{Name: fmt.Sprintf("b%d", i)}); err != nil {
			t.Errorf("all processes are back: %v", err)
		}
	}
	until(t, "the leader has asked the host for its unchanged cells", func() bool {
		return slices.ContainsFunc(all, func(p *plane) bool {
			c, err := p.cloud(p.operator).Cluster(t.Context(), op.Resource.ID)
			return err == nil && c.Status.Members[0].State == wire.Opened
		})
	})
}

// rejoin opens a closed process of several again.
func rejoin(p *plane) {
	p.t.Helper()
	p.serving.Lock()
	defer p.serving.Unlock()
	of := *p.cfg.Cluster
	of.Listener = of.Listener.(*opening).of.listen()
	p.cfg.Cluster = &of
	p.open()
	p.down.Store(false)
}

// A process of several does not start without the others by mistake.
func TestAProcessOfSeveralNeedsItsCluster(t *testing.T) {
	t.Parallel()
	all := startPlanes(t, 2)
	of := all[1].cfg
	all[1].close()
	of.Cluster = nil
	if _, err := Open(t.Context(), of); api.CodeOf(err) != api.Conflict || !strings.Contains(err.Error(), "control-1") {
		t.Errorf("it opens alone: %v", err)
	}
	rejoin(all[1])
}
