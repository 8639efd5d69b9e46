package agent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/fleettest"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/sinks"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/raftlog"
	"github.com/corvo/corvo/engine/transport"
	"github.com/corvo/corvo/engine/transport/memnet"
	"github.com/corvo/corvo/engine/transport/transporttest"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// conditionTimeout is the deadline of what must happen, on a machine that is busy with many groups of other tests.
const conditionTimeout = 4 * time.Minute

// crew is a set of hosts in this process that share namespaces. The test hands them their documents itself, so that
// each host may have another one.
type crew struct {
	t          *testing.T
	plane      *fleettest.ControlPlane
	net        *memnet.Net
	identities map[string]transport.Identity
	receiver   sinks.Receiver
	number     int64
	hosts      map[string]*member
}

// member is a host, running or not. Its store has the name that the test gives it.
type member struct {
	*Agent
	store, dir, address string
	transport           *transport.Transport
}

// newCrew starts hosts. The names of the stores are the hosts' too.
func newCrew(t *testing.T, stores ...string) *crew {
	t.Helper()
	c := &crew{t: t, plane: fleettest.New(t), net: memnet.New(), identities: transporttest.Identities(stores...), hosts: map[string]*member{}}
	for _, store := range stores {
		c.hosts[store] = &member{store: store, dir: t.TempDir()}
		t.Cleanup(func() { c.stop(store) })
		c.start(store)
	}
	return c
}

func (c *crew) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// start opens a host under its previous address.
func (c *crew) start(store string) {
	c.t.Helper()
	m, port := c.hosts[store], 0
	if m.address != "" {
		_, err := fmt.Sscanf(m.address, store+":%d", &port)
		c.must(err)
	}
	listener, err := c.net.Listen(store, port)
	c.must(err)
	m.address = listener.Addr().String()
	logger := slog.New(slog.DiscardHandler)
	m.transport, err = transport.Open(transport.Config{NodeID: store, Identity: c.identities[store], Listener: listener, Dial: c.net.Dialer(store), Logger: logger})
	c.must(err)
	m.Agent, err = Open(Config{DataDir: m.dir, Store: store, ControlPlane: c.plane.URL, Credential: c.plane.Register(store, keyring.Host), Transport: m.transport, Logger: logger})
	c.must(err)
	m.running.Go(m.askLoop)
	m.host, err = host.Open(host.Config{
		DataDir: m.dir, NodeID: store, Members: m.Members, Peers: m.Peers, OnChange: m.Notify, Receiver: c.receiver, Logger: logger,
		Engine: engine.Tuning{Transport: m.transport, SegmentBytes: raftlog.MinSegmentBytes, NoSync: true, Heartbeat: 2 * time.Second, Election: 2 * time.Second},
	})
	c.must(err)
}

// stop closes a host that runs.
func (c *crew) stop(store string) {
	c.t.Helper()
	m := c.hosts[store]
	if m.Agent == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), conditionTimeout)
	defer cancel()
	for _, err := range []error{m.Close(), m.host.Close(ctx), m.transport.Close()} {
		if err != nil {
			c.t.Errorf("close %s: %v", store, err)
		}
	}
	m.Agent = nil
}

// doc returns a document of a namespace with two shards. The first letters of a member are its role, found, join or
// leaving, as in "found:a".
func (c *crew) doc(generation int64, members ...string) fleet.Doc {
	c.number++
	d := fleet.Doc{
		Number: c.number, Kind: fleet.KindPlacement, Namespace: "ns_a", Name: "a", Org: "org_1", Desired: fleet.Open, Epoch: 1, Generation: generation,
		Incarnations: []entry.Incarnation{{1}, {2}},
	}
	for _, m := range members {
		role, store, _ := strings.Cut(m, ":")
		d.Members = append(d.Members, fleet.GroupMember{Store: store, Host: store, Raft: c.hosts[store].address, Role: role})
	}
	return d
}

// leave returns the document for a host that leaves: other members have the namespace, in the given configurations.
func (c *crew) leave(generation int64, configurations []uint64, members ...string) fleet.Doc {
	d := c.doc(generation, members...)
	d.Desired, d.Configurations = fleet.Leave, configurations
	return d
}

// lead moves the leadership of both shards to a host.
func (c *crew) lead(store string) {
	c.t.Helper()
	cells, err := c.hosts[store].host.Cells("ns_a")
	c.must(err)
	for _, at := range cells {
		eventually(c.t, store+" leads", func() bool {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			return at.Leader() || at.Engine().Transfer(ctx, store) == nil && at.Leader()
		}, func() any { return c.hosts[store].cell() })
	}
}

// tell hands a document to running hosts.
func (c *crew) tell(d fleet.Doc, stores ...string) fleet.Doc {
	c.t.Helper()
	for _, store := range stores {
		c.must(c.hosts[store].applyDoc(d))
	}
	return d
}

// cell returns the report of a host about the namespace; its State is "" if there is none.
func (m *member) cell() fleet.CellReport {
	if m.Agent != nil {
		for _, c := range m.report().Cells {
			return c
		}
	}
	return fleet.CellReport{}
}

// reports waits until a host has brought a generation into a state.
func (c *crew) reports(store, state string, generation int64) (at fleet.CellReport) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("%s reports %s in generation %d", store, state, generation), func() bool {
		at = c.hosts[store].cell()
		return at.State == state && at.Generation == generation
	}, func() any { return at })
	return at
}

// settled waits until the leader of each shard reports that the group has the list of a generation, with the given
// voters and no learners, as the control plane does. It returns the configurations.
func (c *crew) settled(generation int64, voters ...string) (configurations []uint64) {
	c.t.Helper()
	var seen []fleet.CellReport
	eventually(c.t, fmt.Sprintf("the groups have the members %v of generation %d", voters, generation), func() bool {
		configurations, seen = make([]uint64, 2), nil
		found := 0
		for _, store := range voters {
			at := c.hosts[store].cell()
			seen = append(seen, at)
			for shard, g := range at.Groups {
				if g.Role == fleet.Leading && g.Epoch == 1 && g.Generation == generation && len(g.Learners) == 0 && slices.Equal(g.Voters, slices.Sorted(slices.Values(voters))) {
					configurations[shard] = g.Configuration
					found++
				}
			}
		}
		return found == 2
	}, func() any { return seen })
	return configurations
}

// eventually waits for a condition, and prints what was seen if it does not come.
func eventually(t *testing.T, what string, ok func() bool, seen func() any) {
	t.Helper()
	for deadline := time.Now().Add(conditionTimeout); !ok(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it is still not so that %s: %+v", what, seen())
		}
	}
}

// enqueue adds jobs to the shards in turn. After a failure it goes on with the next of the given hosts, as a gateway
// does, because a store that the groups have removed reaches no leader. It returns the ids of the jobs by shard.
func (c *crew) enqueue(n int, stores ...string) (ids [2][]job.ID) {
	c.t.Helper()
	deadline := time.Now().Add(conditionTimeout)
	for i, try := 0, 0; i < n; try++ {
		if time.Now().After(deadline) {
			c.t.Fatalf("%d of %d jobs were enqueued in time", i, n)
		}
		id, err := c.hosts[stores[try/2%len(stores)]].enqueue(i % 2)
		if err != nil {
			<-time.After(5 * time.Millisecond)
			continue
		}
		ids[i%2] = append(ids[i%2], id)
		i++
	}
	return ids
}

func (m *member) enqueue(shard int) (job.ID, error) {
	cells, err := m.host.Cells("ns_a")
	if err != nil {
		return job.ID{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	id := cells[shard].NewID("q")
	_, _, err = cell.Propose[*op.EnqueueResult](ctx, cells[shard], &op.Enqueue{
		Meta: &op.Meta{Ids: [][]byte{id[:]}},
		Jobs: []*op.NewJob{{Queue: "q", Payload: &job.Blob{Data: []byte("{}")}, Retry: &job.Retry{MaxAttempts: 1, Backoff: job.BackoffNone}}},
	})
	return id, err
}

// has checks that a host has all jobs, after the last write that any leader acknowledged.
func (c *crew) has(store string, ids [2][]job.ID) {
	c.t.Helper()
	cells, err := c.hosts[store].host.Cells("ns_a")
	c.must(err)
	ctx, cancel := context.WithTimeout(context.Background(), conditionTimeout)
	defer cancel()
	for shard, of := range ids {
		c.must(cells[shard].Verify(ctx))
		for _, id := range of {
			if j, err := cells[shard].State().Job(id); err != nil || j == nil {
				c.t.Errorf("%s lacks job %s of shard %d: %v", store, id, shard, err)
			}
		}
	}
}

// onDisk reports whether a host has a copy of the namespace.
func (c *crew) onDisk(store string) bool {
	c.t.Helper()
	all, err := os.ReadDir(c.hosts[store].dir + "/ns")
	return err == nil && slices.ContainsFunc(all, func(e os.DirEntry) bool { return tenancy.NamespaceID(e.Name()) == "ns_a" })
}

// A namespace of three is founded by one host. The other two wait empty until its leaders add them. When the leader's
// host is gone, another leads and has all acknowledged jobs.
func TestANamespaceOfThreeSurvivesItsLeader(t *testing.T) {
	t.Parallel()
	c := newCrew(t, "a", "b", "c")
	c.tell(c.doc(1, "found:a", "join:b", "join:c"), "b", "c")
	for _, store := range []string{"b", "c"} {
		at := c.reports(store, fleet.Opened, 1)
		if want := []fleet.GroupReport{{Role: fleet.Joining}, {Role: fleet.Joining}}; len(at.Groups) != 2 || at.Groups[0].Role != want[0].Role || at.Groups[1].Role != want[1].Role || !slices.Equal(at.Incarnations, []entry.Incarnation{{1}, {2}}) {
			t.Errorf("%s waits as %+v", store, at)
		}
	}
	c.tell(c.doc(1, "found:a", "join:b", "join:c"), "a")
	c.settled(1, "a", "b", "c")
	c.tell(c.doc(1, "join:a", "join:b", "join:c"), "a", "b", "c")
	ids := c.enqueue(20, "a", "b", "c")
	c.stop("a")
	more := c.enqueue(10, "b", "c")
	for shard := range ids {
		ids[shard] = append(ids[shard], more[shard]...)
	}
	for _, store := range []string{"b", "c"} {
		c.has(store, ids)
	}
	c.start("a")
	c.tell(c.doc(1, "join:a", "join:b", "join:c"), "a")
	c.reports("a", fleet.Opened, 1)
	c.has("a", ids)
}

// A member waits as a future member only where it never was one. A member whose data is gone is refused, because a
// voter that forgot its votes must not vote. So is the only member of a namespace, because nobody could add it.
func TestAMemberThatLostItsDataIsRefused(t *testing.T) {
	t.Parallel()
	c := newCrew(t, "a", "b", "c")
	c.tell(c.doc(1, "found:a", "join:b", "join:c"), "a", "b", "c")
	c.settled(1, "a", "b", "c")
	d := c.tell(c.doc(1, "join:a", "join:b", "join:c"), "a", "b", "c")
	c.stop("b")
	c.must(os.RemoveAll(c.hosts["b"].dir + "/ns/ns_a"))
	c.start("b")
	c.tell(d, "b")
	if at := c.reports("b", fleet.Failed, 1); !strings.Contains(at.Error, "has been open on this host") || at.Groups != nil {
		t.Errorf("%+v", at)
	}
	alone := newCrew(t, "d")
	alone.tell(alone.doc(1, "join:d"), "d")
	if at := alone.reports("d", fleet.Failed, 1); !strings.Contains(at.Error, "an empty one is not founded in its place") {
		t.Errorf("the only member: %+v", at)
	}
}

// A store that the list has left before it had a copy has nothing to serve. It can become a member later.
func TestAStoreThatLeavesWithoutACopyWaits(t *testing.T) {
	t.Parallel()
	c := newCrew(t, "a", "b", "c")
	c.tell(c.doc(1, "found:a"), "a")
	c.tell(c.doc(2, "join:a", "leaving:b"), "b")
	c.reports("b", fleet.Waiting, 2)
	if c.onDisk("b") {
		t.Error("it has a directory")
	}
	c.tell(c.doc(3, "join:a", "join:b", "join:c"), "a", "b", "c")
	c.settled(3, "a", "b", "c")
}

// A document that names neither the store nor its host is refused, and one that names another store of the host shuts
// the namespace.
func TestADocumentOfOtherMembers(t *testing.T) {
	t.Parallel()
	plane := fleettest.New(t)
	a := openAgent(t, t.TempDir(), plane)
	if err := a.Start(t.Context(), a.host); err != nil {
		t.Fatal(err)
	}
	fleettest.Eventually(t, "it has joined", func() bool { return a.member.ID() != "" })
	of := func(number int64, members ...fleet.GroupMember) fleet.Doc {
		d := doc(number, "ns_a", fleet.Open, number)
		d.Members = members
		return d
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(a.applyDoc(of(1, fleet.GroupMember{Store: "store_9", Host: "host_9", Role: fleet.Found})))
	if got := a.stateOf("ns_a"); got != "unknown" {
		t.Errorf("it is %s on a host that the document does not name", got)
	}
	must(a.applyDoc(of(2, fleet.GroupMember{Store: "store_9", Host: "host_9", Role: fleet.Join}, fleet.GroupMember{Store: "store_1", Host: "host_1", Role: fleet.Found})))
	fleettest.Eventually(t, "it is open", func() bool { return a.stateOf("ns_a") == fleet.Opened })
	must(a.applyDoc(of(3, fleet.GroupMember{Store: "store_9", Host: "host_9", Role: fleet.Join}, fleet.GroupMember{Store: "store_0", Host: "host_1", Role: fleet.Join})))
	fleettest.Eventually(t, "it is elsewhere", func() bool { return a.stateOf("ns_a") == fleet.Waiting })
	if _, err := a.host.Cells("ns_a"); err == nil {
		t.Error("it is still open")
	}
}

// A change of leadership, of the list of members and of the configuration makes a report due at once.
func TestAChangeInAGroupIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	c := newCrew(t, "a", "b", "c")
	d := c.tell(c.doc(1, "found:a", "join:b", "join:c"), "a", "b", "c")
	c.settled(1, "a", "b", "c")
	due := func(store, what string) {
		t.Helper()
		select {
		case <-c.hosts[store].reportDue:
		case <-time.After(conditionTimeout):
			t.Errorf("%s: %s makes no report due", store, what)
		}
	}
	drain := func() {
		for _, m := range c.hosts {
			select {
			case <-m.reportDue:
			default:
			}
		}
	}
	for _, store := range []string{"b", "c", "a"} {
		drain()
		cells, err := c.hosts[store].host.Cells("ns_a")
		c.must(err)
		ctx, cancel := context.WithTimeout(t.Context(), conditionTimeout)
		defer cancel()
		c.must(cells[1].Engine().Transfer(ctx, store))
		due(store, "to lead")
		eventually(t, "it says that it leads", func() bool { return c.hosts[store].cell().Groups[1].Role == fleet.Leading }, func() any { return c.hosts[store].cell() })
	}
	drain()
	d.Number, d.Generation, d.Members = d.Number+1, 2, d.Members[:1]
	c.tell(d, "a")
	due("a", "a document")
	due("a", "the list and the configurations")
	c.settled(2, "a")
}

// A host without a Raft address gives its groups the list of their only member too.
func TestAHostWithoutARaftAddressHasAList(t *testing.T) {
	t.Parallel()
	a := openAgent(t, t.TempDir(), fleettest.New(t))
	if err := a.applyDoc(doc(1, "ns_a", fleet.Open, 7)); err != nil {
		t.Fatal(err)
	}
	var at fleet.Report
	eventually(t, "the list of generation 7 is in force", func() bool {
		at = a.report()
		g := at.Cells[0].Groups
		return len(g) == 1 && g[0].Generation == 7 && g[0].Epoch == 1 && slices.Equal(g[0].Voters, []string{"store_1"}) && g[0].Configuration > 0
	}, func() any { return at.Cells })
}

// A member that waits accepts the groups' leaders only if its newest document names them.
func TestAFutureMemberAcceptsTheMembersOfItsDocument(t *testing.T) {
	t.Parallel()
	c := newCrew(t, "a", "b", "c")
	c.tell(c.doc(1, "join:b", "join:c"), "b")
	c.reports("b", fleet.Opened, 1)
	c.tell(c.doc(1, "found:a", "join:b", "join:c"), "a", "c")
	eventually(t, "the leaders have added c", func() bool {
		at := c.hosts["c"].cell()
		return len(at.Groups) == 2 && at.Groups[0].Role == fleet.Following && at.Groups[1].Role == fleet.Following
	}, func() any { return c.hosts["c"].cell() })
	for shard, g := range c.hosts["b"].cell().Groups {
		if g.Role != fleet.Joining {
			t.Errorf("shard %d of b is %s by a leader that its document does not name", shard, g.Role)
		}
	}
	c.tell(c.doc(1, "join:a", "join:b", "join:c"), "b")
	c.settled(1, "a", "b", "c")
}

// A leader that was cut off while the namespace moved to other stores comes back with its old document when the copies
// of the old members are gone. It brings none of them back, and once it has the newer document, it is a member of the
// new ones and leads by their list.
func TestAStaleLeaderBringsNobodyBack(t *testing.T) {
	t.Parallel()
	c := newCrew(t, "a", "b", "c", "d", "e")
	c.tell(c.doc(1, "found:a", "join:b", "join:c"), "a", "b", "c")
	c.settled(1, "a", "b", "c")
	old := c.tell(c.doc(1, "join:a", "join:b", "join:c"), "a")
	c.lead("a")
	for _, store := range []string{"b", "c"} {
		// A voter that has not yet heard that another has a vote refuses to vote for it.
		c.has(store, [2][]job.ID{})
	}
	c.net.Isolate("a")
	newer := c.tell(c.doc(2, "join:a", "join:d", "join:e", "leaving:b", "leaving:c"), "b", "c", "d", "e")
	var configurations []uint64
	eventually(t, "the others lead and have the new list", func() bool {
		configurations = make([]uint64, 2)
		n := 0
		for _, store := range []string{"d", "e"} {
			for shard, g := range c.hosts[store].cell().Groups {
				if g.Generation == 2 && slices.Equal(g.Voters, []string{"a", "d", "e"}) && len(g.Learners) == 0 {
					configurations[shard] = g.Configuration
					n++
				}
			}
		}
		return n == 2
	}, func() any { return []fleet.CellReport{c.hosts["d"].cell(), c.hosts["e"].cell()} })
	c.tell(c.leave(2, configurations, "join:a", "join:d", "join:e"), "b", "c")
	for _, store := range []string{"b", "c"} {
		c.reports(store, fleet.Gone, 2)
	}
	ids := c.enqueue(10, "d", "e")
	c.net.Heal()
	old.Number = c.number + 1
	c.tell(old, "a")
	ctx, cancel := context.WithTimeout(t.Context(), conditionTimeout)
	defer cancel()
	cells, err := c.hosts["a"].host.Cells("ns_a")
	c.must(err)
	for _, at := range cells {
		// The leader's lease has ended, and nobody whom it knows votes for it.
		eventually(t, "a does not lead", func() bool { return !at.Leader() }, func() any { return c.hosts["a"].cell() })
	}
	newer.Number = c.number + 2
	c.tell(newer, "a")
	for _, at := range cells {
		c.must(at.Ready(ctx))
	}
	c.has("a", ids)
	c.lead("a")
	c.settled(2, "a", "d", "e")
	c.has("a", c.enqueue(10, "a", "d", "e"))
	for _, store := range []string{"b", "c"} {
		if c.onDisk(store) {
			t.Errorf("%s has the namespace again", store)
		}
	}
}

// A store that left and was added again keeps its data when it gets the document that made it leave once more, because
// its log has a later configuration than that document.
func TestAStoreThatWasAddedAgainKeepsItsData(t *testing.T) {
	t.Parallel()
	c := newCrew(t, "a", "b", "c")
	c.tell(c.doc(1, "found:a", "join:b", "join:c"), "a", "b", "c")
	c.settled(1, "a", "b", "c")
	c.tell(c.doc(2, "join:a", "leaving:b", "leaving:c"), "a", "b", "c")
	left := c.settled(2, "a")
	c.tell(c.doc(3, "join:a", "join:b", "join:c"), "a", "b", "c")
	c.settled(3, "a", "b", "c")
	ids := c.enqueue(10, "a")
	c.has("b", ids)
	c.tell(c.leave(3, left, "join:a"), "b")
	if at := c.reports("b", fleet.Failed, 3); !strings.Contains(at.Error, "is kept") || !c.onDisk("b") {
		t.Errorf("%+v", at)
	}
	c.tell(c.doc(3, "join:a", "join:b", "join:c"), "b")
	c.reports("b", fleet.Opened, 3)
	c.has("b", ids)
}

// A namespace with one replica moves from a host to another: the new store is added and leads before the old one is
// removed and deletes its copy. Then it gets three members and loses two again.
func TestANamespaceMovesGrowsAndShrinks(t *testing.T) {
	t.Parallel()
	c := newCrew(t, "a", "b", "c", "d")
	c.tell(c.doc(1, "found:a"), "a")
	c.settled(1, "a")
	ids := c.enqueue(20, "a")
	more := func(stores ...string) {
		t.Helper()
		for shard, of := range c.enqueue(10, stores...) {
			ids[shard] = append(ids[shard], of...)
		}
	}
	c.tell(c.doc(2, "join:b", "leaving:a"), "a", "b")
	more("a", "b")
	moved := c.settled(2, "b")
	c.tell(c.leave(2, moved, "join:b"), "a")
	c.reports("a", fleet.Gone, 2)
	if c.onDisk("a") {
		t.Error("the copy of a is there")
	}
	more("b")
	c.has("b", ids)
	c.stop("b")
	c.start("b")
	c.tell(c.doc(2, "join:b"), "b")
	c.reports("b", fleet.Opened, 2)
	more("b")

	c.tell(c.doc(3, "join:b", "join:c", "join:d"), "b", "c", "d")
	more("b", "c", "d")
	c.settled(3, "b", "c", "d")
	c.has("d", ids)
	c.tell(c.doc(4, "join:d", "leaving:b", "leaving:c"), "b", "c", "d")
	more("b", "d")
	shrunk := c.settled(4, "d")
	c.tell(c.leave(4, shrunk, "join:d"), "b", "c")
	for _, store := range []string{"b", "c"} {
		c.reports(store, fleet.Gone, 4)
	}
	more("d")
	c.has("d", ids)
}
