package plan

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/engine/entry"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

// scenario is a namespace with its hosts and its cell.
type scenario struct {
	name  string
	ns    fleet.Namespace
	hosts []Host
	cell  CellReport
}

// ns returns a namespace of one replica, on the store of a host; "" = not placed yet.
func ns(phase fleet.Phase, host string, generation int64) fleet.Namespace {
	n := fleet.Namespace{ID: "ns_1", Name: "orders", Phase: phase, Generation: generation, Spec: fleet.Spec{Region: "eu", Replicas: 1, Shards: 1}}
	if host != "" {
		n.Members = []fleet.GroupMember{{Store: "s" + host, Host: host, Raft: host + ":1"}}
	}
	if phase == fleet.Active {
		n.Observed = generation
	}
	return n
}

var own, other = []entry.Incarnation{{1}}, []entry.Incarnation{{2}}

// minted returns the namespace with incarnations, whose founding may be recorded.
func minted(n fleet.Namespace, founded bool) fleet.Namespace {
	n.Incarnations, n.Founded = own, founded
	return n
}

func lost(n fleet.Namespace) fleet.Namespace {
	n.Members[0].Lost = true
	return n
}

// opened returns a report that h1 has the groups open, and that it leads them with a list of the generation.
func opened(generation int64, incarnations []entry.Incarnation) CellReport {
	return CellReport{Generation: generation, State: wire.Opened, Incarnations: incarnations,
		Groups: []wire.GroupReport{{Role: wire.Leading, Epoch: 1, Generation: generation, Configuration: 7, Voters: []string{"sh1"}}}}
}

// listless returns a report without groups, as of a host of an earlier version.
func listless(generation int64, incarnations []entry.Incarnation) CellReport {
	return CellReport{Generation: generation, State: wire.Opened, Incarnations: incarnations}
}

// led returns a report with another generation of the list.
func led(c CellReport, generation int64) CellReport {
	c.Groups[0].Generation = generation
	return c
}

func following(c CellReport) CellReport {
	c.Groups = []wire.GroupReport{{Role: wire.Following}}
	return c
}

func learning(c CellReport, store string) CellReport {
	c.Groups[0].Learners = []string{store}
	return c
}

func paused(n fleet.Namespace) fleet.Namespace {
	n.PausedBy, n.PausedNs = "operator", int64(time.Hour)
	return n
}

func host(id string, placed int, alive bool) Host {
	return Host{ID: id, Name: "n" + id, Region: "eu", Zone: id, Store: "s" + id, Raft: id + ":1", Alive: alive, Away: !alive, Namespaces: placed}
}

var (
	alive = []Host{host("h1", 1, true)}
	dead  = []Host{host("h1", 1, false)}
)

// The scenarios, in the order of a namespace's life.
var scenarios = []scenario{
	{"no host at all", ns(fleet.Provisioning, "", 1), nil, CellReport{}},
	{"no host alive", ns(fleet.Provisioning, "", 1), []Host{host("h1", 0, false), host("h2", 0, false)}, CellReport{}},
	{"the only host alive is in another region", ns(fleet.Provisioning, "", 1), []Host{{ID: "h1", Region: "us", Store: "sh1", Alive: true}}, CellReport{}},
	{"one host", ns(fleet.Provisioning, "", 1), alive, CellReport{}},
	{"the emptiest host", ns(fleet.Provisioning, "", 1), []Host{host("h1", 2, true), host("h2", 1, true), host("h3", 3, true)}, CellReport{}},
	{"of equals the first by id", ns(fleet.Provisioning, "", 1), []Host{host("h3", 1, true), host("h2", 1, true)}, CellReport{}},
	{"an emptier host is dead", ns(fleet.Provisioning, "", 1), []Host{host("h1", 0, false), host("h2", 9, true)}, CellReport{}},
	{"the founder's store is lost", lost(minted(ns(fleet.Provisioning, "h1", 1), false)), []Host{host("h1", 1, true), host("h2", 0, true)}, CellReport{Generation: 1, State: wire.Waiting, Error: "elsewhere"}},
	{"the founder's store is lost, it reports all the same", lost(minted(ns(fleet.Provisioning, "h1", 1), false)), alive, opened(1, own)},
	{"the founder's store is lost, no host alive", lost(minted(ns(fleet.Provisioning, "h1", 1), false)), dead, CellReport{}},
	{"the store is lost after its founding was recorded", lost(minted(ns(fleet.Provisioning, "h1", 1), true)), alive, CellReport{Generation: 1, State: wire.Waiting, Error: "elsewhere"}},
	{"active, the store is lost", lost(minted(ns(fleet.Active, "h1", 1), true)), alive, CellReport{Generation: 1, State: wire.Waiting, Error: "elsewhere"}},
	{"the emptiest host has a full disk", ns(fleet.Provisioning, "", 1), []Host{room("h1", 0, 800), room("h2", 3, 799)}, CellReport{}},
	{"the only living host has a full disk", ns(fleet.Provisioning, "", 1), []Host{room("h1", 0, 800), host("h2", 0, false)}, CellReport{}},
	{"placed on a host that is full since", minted(ns(fleet.Provisioning, "h1", 1), true), []Host{room("h1", 10, 999)}, opened(1, own)},
	{"placed, the host has not heard of it", ns(fleet.Provisioning, "h1", 1), alive, CellReport{}},
	{"opening", ns(fleet.Provisioning, "h1", 1), alive, CellReport{Generation: 1, State: wire.Opening}},
	{"failed with an error", ns(fleet.Provisioning, "h1", 1), alive, CellReport{Generation: 1, State: wire.Failed, Error: "disk full"}},
	{"the host died before opening", ns(fleet.Provisioning, "h1", 1), dead, CellReport{}},
	{"the host died before opening, another lives", ns(fleet.Provisioning, "h1", 1), append([]Host{host("h2", 0, true)}, dead...), CellReport{}},
	{"the host died after opening, before that was recorded", minted(ns(fleet.Provisioning, "h1", 1), false), dead, opened(1, own)},
	{"the host died after its founding was recorded, before it was settled", minted(ns(fleet.Provisioning, "h1", 1), true), dead, opened(1, own)},
	{"the host is registered no more", minted(ns(fleet.Provisioning, "h1", 1), false), nil, opened(1, own)},
	{"open, not recorded", minted(ns(fleet.Provisioning, "h1", 1), false), alive, opened(1, own)},
	{"open and recorded, the list is not in force", minted(ns(fleet.Provisioning, "h1", 2), true), alive, led(opened(2, own), 1)},
	{"open and recorded, the list is of the future", minted(ns(fleet.Provisioning, "h1", 2), true), alive, led(opened(2, own), 3)},
	{"open and recorded, nobody leads", minted(ns(fleet.Provisioning, "h1", 1), true), alive, following(opened(1, own))},
	{"open and recorded, by a host that reports no groups", minted(ns(fleet.Provisioning, "h1", 1), true), alive, listless(1, own)},
	{"open and recorded, a learner is left", minted(ns(fleet.Provisioning, "h1", 1), true), alive, learning(opened(1, own), "sh9")},
	{"open and recorded", minted(ns(fleet.Provisioning, "h1", 1), true), alive, opened(1, own)},
	{"open with other incarnations", minted(ns(fleet.Provisioning, "h1", 1), false), alive, opened(1, other)},
	{"recorded, open with other incarnations", minted(ns(fleet.Provisioning, "h1", 1), true), alive, opened(1, other)},
	{"open without incarnations", minted(ns(fleet.Provisioning, "h1", 1), false), alive, opened(1, nil)},
	{"of an earlier version, open", ns(fleet.Provisioning, "h1", 1), alive, opened(1, own)},
	{"open at a stale generation", minted(ns(fleet.Provisioning, "h1", 2), false), alive, opened(1, own)},
	{"open at a generation of the future", minted(ns(fleet.Provisioning, "h1", 1), false), alive, opened(2, own)},
	{"active", minted(ns(fleet.Active, "h1", 1), true), alive, opened(1, own)},
	{"active with other incarnations", minted(ns(fleet.Active, "h1", 1), true), alive, opened(1, other)},
	{"active, of an earlier version, open", ns(fleet.Active, "h1", 1), alive, opened(1, own)},
	{"active, of an earlier version, open at a stale generation", ns(fleet.Active, "h1", 2), alive, opened(1, own)},
	{"active, of an earlier version, opening", ns(fleet.Active, "h1", 1), alive, CellReport{Generation: 1, State: wire.Opening}},
	{"active on a dead host", ns(fleet.Active, "h1", 1), dead, CellReport{}},
	{"deleted before it was placed", ns(fleet.Deleting, "", 2), alive, CellReport{}},
	{"deleted before it was placed, no host", ns(fleet.Deleting, "", 2), nil, CellReport{}},
	{"deleted while opening", ns(fleet.Deleting, "h1", 2), alive, CellReport{Generation: 1, State: wire.Opening}},
	{"deleted while open", ns(fleet.Deleting, "h1", 2), alive, CellReport{Generation: 1, State: wire.Opened}},
	{"deleting, the host has not heard of the namespace", ns(fleet.Deleting, "h1", 2), alive, CellReport{}},
	{"closing", ns(fleet.Deleting, "h1", 2), alive, CellReport{Generation: 2, State: wire.Closing}},
	{"cannot delete its data", ns(fleet.Deleting, "h1", 2), alive, CellReport{Generation: 2, State: wire.Failed, Error: "disk gone"}},
	{"deleting, the host is dead", ns(fleet.Deleting, "h1", 2), dead, CellReport{Generation: 1, State: wire.Opened}},
	{"absent, but of an older generation", ns(fleet.Deleting, "h1", 3), alive, CellReport{Generation: 2, State: wire.Gone}},
	{"absent", ns(fleet.Deleting, "h1", 2), alive, CellReport{Generation: 2, State: wire.Gone}},
	{"absent, and then the host died", ns(fleet.Deleting, "h1", 2), dead, CellReport{Generation: 2, State: wire.Gone}},
	{"paused before it was placed", paused(ns(fleet.Provisioning, "", 1)), alive, CellReport{}},
	{"paused, and its host has opened it", paused(ns(fleet.Provisioning, "h1", 1)), alive, CellReport{Generation: 1, State: wire.Opened}},
	{"paused and active", paused(ns(fleet.Active, "h1", 1)), alive, CellReport{Generation: 1, State: wire.Opened}},
	{"paused, and its host has deleted its data", paused(ns(fleet.Deleting, "h1", 2)), alive, CellReport{Generation: 2, State: wire.Gone}},
	{"deleted", ns(fleet.Deleted, "h1", 2), alive, CellReport{Generation: 2, State: wire.Gone}},
}

// The golden file tells the plans as a story for people, and shows a change of plans as a diff.
func TestScenarios(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, s := range scenarios {
		fmt.Fprintf(&b, "%s\n    -> %s\n", s.name, print(Next(s.ns, s.hosts, map[string]CellReport{"h1": s.cell})))
	}
	path := filepath.Join("testdata", "scenarios.golden")
	if *rewrite {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, []byte(b.String())) {
		t.Errorf("%s differs; the plans are now:\n%s", path, b.String())
	}
}

func print(step Step) string {
	word := string(step.Kind)
	if step.Kind == None {
		word = "nothing"
	}
	return strings.TrimSpace(word + " " + strings.Join(step.Stores, " ") + step.Reason)
}

// In 50,000 random situations Next names a witness for each step, and places members only where they may be.
func TestNothingIsDoneWithoutAWitness(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	kinds := map[Kind]int{}
	for range 50_000 {
		v := randomView(random)
		step := Next(v.ns, v.hosts, v.cells)
		kinds[step.Kind]++
		if problem := v.check(step); problem != "" {
			t.Fatalf("%s: %s %v of\n%+v\n%+v\n%+v", problem, step.Kind, step, v.ns, v.hosts, v.cells)
		}
	}
	for _, kind := range []Kind{None, Await, Place, Replace, Found, Change, Settle, Remove} {
		if kinds[kind] < 50 {
			t.Errorf("the situations are poor: %q was chosen %d times", kind, kinds[kind])
		}
	}
}

// randomView returns a situation of a namespace of two shards, whose parts are likely to fit.
func randomView(random *rand.Rand) view {
	chance := func(percent int) bool { return random.IntN(100) < percent }
	phase := []fleet.Phase{fleet.Provisioning, fleet.Active, fleet.Active, fleet.Deleting, fleet.Deleted}[random.IntN(5)]
	n := fleet.Namespace{ID: "ns_1", Phase: phase, Generation: random.Int64N(3) + 1, Spec: fleet.Spec{Region: "eu", Replicas: 1 + 2*random.IntN(3), Shards: 2}}
	n.Founded = phase == fleet.Active && chance(95) || chance(50)
	if chance(80) {
		n.Incarnations = twoOwn
	}
	if phase == fleet.Active {
		n.Observed = n.Generation - int64(random.IntN(3)/2)
	}
	v := view{cells: map[string]CellReport{}}
	calm := chance(50) // most hosts report
	for i := range 6 {
		h := host(fmt.Sprint("h", i), random.IntN(3), chance(70) || calm && chance(90))
		h.Away = !h.Alive && chance(80)
		h.Dead, h.Draining, h.Cells = h.Away && chance(60), chance(15), random.IntN(12)
		h.Capacity = wire.Capacity{MaxCells: 10, DiskTotal: 10, DiskFree: random.Int64N(10), MaxDiskPercent: 80}
		if chance(10) {
			h.Raft = ""
		}
		if chance(10) {
			h.Region = "us"
		}
		v.hosts = append(v.hosts, h)
	}
	listed := 1 + 2*random.IntN(3)
	for i, at := range random.Perm(6)[:min(6, listed+random.IntN(3))] {
		if chance(10) && i == 0 || phase == fleet.Provisioning && i == 0 && chance(30) {
			break // not placed
		}
		id := fmt.Sprint("h", at)
		m := fleet.GroupMember{Store: "s" + id, Host: id, Raft: id + ":1", Leaving: i >= listed, Lost: chance(10)}
		if m.Lost {
			v.hosts[at].Store += "b"
		}
		n.Members = append(n.Members, m)
	}
	if len(n.Members) == 0 {
		n.Founded = false
	}
	v.ns = n
	var list []string
	for _, m := range v.ns.Listed() {
		list = append(list, m.Store)
	}
	if len(list) > 1 && chance(30) {
		list = list[:len(list)-1] // the last has no vote yet
	}
	for _, m := range n.Members {
		v.cells[m.Host] = randomCell(random, n, list)
	}
	return v
}

var twoOwn, twoOther = []entry.Incarnation{{1}, {1}}, []entry.Incarnation{{1}, {2}}

func randomCell(random *rand.Rand, n fleet.Namespace, list []string) CellReport {
	chance := func(percent int) bool { return random.IntN(100) < percent }
	c := CellReport{Generation: n.Generation, State: wire.Opened, Incarnations: twoOwn, Lasting: chance(50)}
	if chance(10) {
		c.Generation = random.Int64N(4)
	}
	if chance(20) {
		c.State = []string{"", wire.Opening, wire.Closing, wire.Failed, wire.Waiting}[random.IntN(5)]
	}
	if n.Phase == fleet.Deleting && chance(80) {
		c.State = wire.Gone
	}
	if chance(10) {
		c.Incarnations = [][]entry.Incarnation{nil, own, twoOther}[random.IntN(3)]
	}
	if chance(3) {
		return c
	}
	for range n.Spec.Shards {
		g := wire.GroupReport{Role: wire.Following}
		if chance(60) {
			g = wire.GroupReport{Role: wire.Leading, Epoch: 1, Generation: n.Generation - int64(random.IntN(4)/3), Configuration: 9, Voters: slices.Clone(list)}
			slices.Reverse(g.Voters)
		}
		if chance(10) {
			g.Voters = append(g.Voters, "s_other")
		}
		if chance(10) {
			g.Learners = []string{"s_other"}
		}
		c.Groups = append(c.Groups, g)
	}
	return c
}

// check returns the rule that a step breaks.
func (v view) check(step Step) string {
	n := v.ns
	switch step.Kind {
	case None:
		return problem(n.Phase == fleet.Active || n.Phase == fleet.Deleted, "there is something to do")
	case Await:
		return problem(step.Reason != "", "it waits for no reason")
	case Place:
		return cmp.Or(problem(n.Phase == fleet.Provisioning && len(n.Members) == 0, "it is placed"), v.checkList(step.Stores), problem(len(step.Stores) == n.Spec.Replicas, "the number"))
	case Replace:
		return cmp.Or(problem(n.Phase == fleet.Provisioning && !n.Founded && v.ns.Listed()[0].Lost, "the founder is not lost"), v.checkList(step.Stores), problem(len(step.Stores) == n.Spec.Replicas, "the number"))
	case Found:
		m := v.ns.Listed()[0]
		cell := v.cells[m.Host]
		ok := !n.Founded && n.Phase != fleet.Deleting && cell.Generation == n.Generation && cell.State == wire.Opened
		ok = ok && (n.Incarnations == nil || slices.Equal(n.Incarnations, cell.Incarnations)) && slices.Equal(step.Incarnations, cell.Incarnations)
		return problem(ok, "nobody has founded")
	case Settle:
		return cmp.Or(problem(n.Founded && (n.Phase == fleet.Provisioning || n.Observed < n.Generation), "it is settled"), v.checkForce(step))
	case Remove:
		gone := func(m fleet.GroupMember) bool {
			return v.cells[m.Host].State == wire.Gone && v.cells[m.Host].Generation == n.Generation
		}
		left := v.members(n.Members, func(m fleet.GroupMember) bool { h, _ := v.host(m.Host); return !gone(m) && !h.Away })
		return problem(n.Phase == fleet.Deleting && len(left) == 0 && (len(n.Members) == 0 || slices.ContainsFunc(n.Members, gone)), "a copy is left")
	case Change:
		return cmp.Or(problem(n.Founded && n.Phase != fleet.Deleting, "it has no groups"), v.checkList(step.Stores), v.checkChange(step.Stores))
	}
	return "an unknown kind"
}

func problem(ok bool, text string) string {
	if ok {
		return ""
	}
	return text
}

// checkList checks that each new member of a list may be where it is.
func (v view) checkList(stores []string) string {
	hosts := map[string]bool{}
	for _, store := range stores {
		h, _ := v.host(strings.TrimSuffix(strings.TrimPrefix(store, "s"), "b"))
		if hosts[h.ID] || h.ID == "" {
			return "two members on a host, or one on none"
		}
		hosts[h.ID] = true
		if v.ns.Founded && slices.ContainsFunc(v.ns.Listed(), func(m fleet.GroupMember) bool { return m.Store == store }) {
			continue
		}
		cells := v.ns.Spec.Shards
		if slices.ContainsFunc(v.ns.Members, func(m fleet.GroupMember) bool { return m.Host == h.ID }) {
			cells = 0
		}
		if !h.Alive || h.Draining || h.Store != store || h.Region != "eu" || Full(h, cells) != "" || len(stores) > 1 && h.Raft == "" {
			return "a member where none may be"
		}
	}
	return ""
}

// checkForce checks that a leader of each shard has the configuration that a Settle records, with the list of members.
func (v view) checkForce(step Step) string {
	if len(step.Configurations) != v.ns.Spec.Shards {
		return "the number of configurations"
	}
	for shard := range v.ns.Spec.Shards {
		ok := false
		for _, m := range v.ns.Members {
			cell := v.cells[m.Host]
			if h, _ := v.host(m.Host); m.Lost || !h.Alive || cell.State != wire.Opened || shard >= len(cell.Groups) {
				continue
			}
			g := cell.Groups[shard]
			same := len(g.Voters) == len(v.ns.Listed()) && len(g.Learners) == 0
			for _, l := range v.ns.Listed() {
				same = same && slices.Contains(g.Voters, l.Store)
			}
			ok = ok || same && g.Role == wire.Leading && g.Generation == v.ns.Generation && step.Configurations[shard] == g.Configuration
		}
		if !ok {
			return fmt.Sprintf("shard %d has another configuration", shard)
		}
	}
	return ""
}

// checkChange checks that a change keeps the members that it need not drop.
func (v view) checkChange(stores []string) string {
	listed := v.ns.Listed()
	kept := v.members(listed, func(m fleet.GroupMember) bool { return slices.Contains(stores, m.Store) })
	gone := v.members(listed, func(m fleet.GroupMember) bool {
		h, _ := v.host(m.Host)
		return m.Lost || h.Dead || v.cannotJoin(m)
	})
	dropped := len(listed) - len(gone) - len(kept)
	added := len(stores) - len(kept)
	settled := v.ns.Observed == v.ns.Generation
	silent := 0
	all := 0
	for _, h := range v.hosts {
		if h.Region == "eu" {
			if all++; !h.Alive {
				silent++
			}
		}
	}
	switch {
	case !settled && (len(gone) == 0 || dropped > 0 && len(stores) != v.ns.Spec.Replicas || len(stores) > len(listed)):
		return "a second change at a time"
	case (len(gone) > 0 || dropped > 0 && added > 0) && 3*silent > all:
		return "a replacement during a mass failure"
	case slices.ContainsFunc(kept, func(m fleet.GroupMember) bool { return v.gone(m) || v.cannotJoin(m) }):
		return "a list with a member that is gone"
	case added > 0 && dropped > 1, added > 0 && dropped == 1 && (added != 1 || len(gone) > 0):
		return "a living member is dropped"
	case added == 0 && dropped > 0 && (len(stores) != v.ns.Spec.Replicas || 2*len(v.members(kept, v.up)) <= len(stores)):
		return "the list is too short, or has no majority"
	case len(stores)%2 == 0, len(stores) == len(listed) && added == 0:
		return "an even list, or the same"
	}
	return ""
}

// cannotJoin reports whether a host cannot open a member of which no leader has made a voter.
func (v view) cannotJoin(m fleet.GroupMember) bool {
	h, _ := v.host(m.Host)
	own := v.cells[m.Host]
	for _, cell := range v.cells {
		if slices.ContainsFunc(cell.Groups, func(g wire.GroupReport) bool { return slices.Contains(g.Voters, m.Store) }) {
			return false
		}
	}
	return h.Alive && own.Lasting && own.Generation == v.ns.Generation && (own.State == wire.Failed || own.State == wire.Waiting)
}

// Next spreads namespaces that are created one after the other evenly.
func TestPlacementSpreads(t *testing.T) {
	t.Parallel()
	hosts := []Host{host("h1", 0, true), host("h2", 0, true), host("h3", 0, true), host("h4", 0, true), host("h5", 0, true)}
	for i := range 30 {
		n := ns(fleet.Provisioning, "", 1)
		n.Spec.Replicas = 1 + 2*(i%2)
		step := Next(n, hosts, nil)
		for i := range hosts {
			if slices.Contains(step.Stores, hosts[i].Store) {
				hosts[i].Namespaces++
			}
		}
	}
	for _, h := range hosts {
		if h.Namespaces != 12 {
			t.Errorf("%+v", hosts)
		}
	}
}
