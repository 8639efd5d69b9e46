package plan

import (
	"bytes"
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

func ns(phase fleet.Phase, host string, generation int64) fleet.Namespace {
	return fleet.Namespace{ID: "ns_1", Name: "orders", Phase: phase, HostID: host, Generation: generation, Spec: fleet.Spec{Region: "eu", Shards: 1}}
}

var own, other = []entry.Incarnation{{1}}, []entry.Incarnation{{2}}

// minted returns the namespace with incarnations, whose founding may be recorded.
func minted(n fleet.Namespace, founded bool) fleet.Namespace {
	n.Incarnations, n.Founded = own, founded
	return n
}

func lost(n fleet.Namespace) fleet.Namespace {
	n.StoreLost = true
	return n
}

// opened returns a report of the generation that the groups are open.
func opened(generation int64, incarnations []entry.Incarnation) CellReport {
	return CellReport{Generation: generation, State: wire.Opened, Incarnations: incarnations}
}

func paused(n fleet.Namespace) fleet.Namespace {
	n.PausedBy, n.PausedNs = "operator", int64(time.Hour)
	return n
}

func host(id string, placed int, alive bool) Host {
	return Host{ID: id, Name: "n" + id, Region: "eu", Alive: alive, Namespaces: placed}
}

var (
	alive = []Host{host("h1", 1, true)}
	dead  = []Host{host("h1", 1, false)}
)

// The scenarios, in the order of a namespace's life.
var scenarios = []scenario{
	{"no host at all", ns(fleet.Provisioning, "", 1), nil, CellReport{}},
	{"no host alive", ns(fleet.Provisioning, "", 1), []Host{host("h1", 0, false), host("h2", 0, false)}, CellReport{}},
	{"the only host alive is in another region", ns(fleet.Provisioning, "", 1), []Host{{ID: "h1", Region: "us", Alive: true}}, CellReport{}},
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
		step := Next(s.ns, s.hosts, s.cell)
		word := string(step.Kind)
		if step.Kind == None {
			word = "nothing"
		}
		fmt.Fprintf(&b, "%s\n    -> %s\n", s.name, strings.TrimSpace(word+" "+step.Host+step.Reason))
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

// In 20,000 random situations, Next settles or removes a placed namespace only if its own host reports so
// about the present generation, places it again only if it lost its store before it was founded, and gives each step all that it needs.
func TestNothingIsDoneWithoutAWitness(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(words ...string) string { return words[random.IntN(len(words))] }
	for range 20_000 {
		n := ns(fleet.Phase(pick("provisioning", "active", "deleting", "deleted")), pick("", "h1", "h2"), random.Int64N(3)+1)
		var hosts []Host
		for i := range random.IntN(4) {
			hosts = append(hosts, Host{ID: fmt.Sprintf("h%d", i), Region: pick("eu", "us"), Alive: random.IntN(2) == 0, Namespaces: random.IntN(3), Cells: random.IntN(12),
				Capacity: wire.Capacity{MaxCells: 10, DiskTotal: 10, DiskFree: random.Int64N(10), MaxDiskPercent: 80}})
		}
		if random.IntN(2) == 0 {
			n = minted(n, n.HostID != "" && random.IntN(2) == 0)
		}
		n.StoreLost = n.HostID != "" && random.IntN(4) == 0
		cell := CellReport{Generation: random.Int64N(4), State: pick("", wire.Opening, wire.Opened, wire.Closing, wire.Gone, wire.Failed)}
		cell.Incarnations = [][]entry.Incarnation{nil, own, other}[random.IntN(3)]
		step := Next(n, hosts, cell)
		witness := cell.Generation == n.Generation
		ok := false
		switch step.Kind {
		case None:
			ok = n.Phase == fleet.Active || n.Phase == fleet.Deleted
		case Await:
			ok = step.Reason != ""
		case Place, Replace:
			ok = n.Phase == fleet.Provisioning && step.Host != "" && !n.Founded
			ok = ok && (n.HostID == "") == (step.Kind == Place) && n.StoreLost == (step.Kind == Replace)
			for _, h := range hosts {
				if h.ID == step.Host {
					ok = ok && h.Alive && h.Region == n.Spec.Region && (Full(h, n.Spec.Shards) == "" || h.ID == n.HostID && Full(h, 0) == "")
				}
			}
		case Found:
			ok = (n.Phase == fleet.Provisioning || n.Phase == fleet.Active) && n.HostID != "" && witness && cell.State == wire.Opened && !n.Founded
			ok = ok && len(cell.Incarnations) == 1 && slices.Equal(step.Incarnations, cell.Incarnations)
			ok = ok && (n.Incarnations == nil || slices.Equal(n.Incarnations, cell.Incarnations))
		case Settle:
			ok = n.Phase == fleet.Provisioning && n.HostID != "" && witness && cell.State == wire.Opened
			ok = ok && n.Founded && slices.Equal(n.Incarnations, cell.Incarnations)
		case Remove:
			ok = n.Phase == fleet.Deleting && (n.HostID == "" || witness && cell.State == wire.Gone)
		}
		if !ok {
			t.Fatalf("%+v with %+v and %+v: %+v", n, hosts, cell, step)
		}
	}
}

// Next spreads namespaces that are created one after the other evenly.
func TestPlacementSpreads(t *testing.T) {
	t.Parallel()
	hosts := []Host{host("h1", 0, true), host("h2", 0, true), host("h3", 0, true)}
	for range 30 {
		step := Next(ns(fleet.Provisioning, "", 1), hosts, CellReport{})
		for i := range hosts {
			if hosts[i].ID == step.Host {
				hosts[i].Namespaces++
			}
		}
	}
	for _, h := range hosts {
		if h.Namespaces != 10 {
			t.Errorf("%+v", hosts)
		}
	}
}

// An active namespace shows the loss of its store before anything that the host reports. A namespace with an
// operation has the reason of its plan instead.
func TestFault(t *testing.T) {
	t.Parallel()
	ns := fleet.Namespace{Phase: fleet.Active, HostID: "host_a", Store: "store_a"}
	lost := ns
	lost.StoreLost = true
	creating := ns
	creating.Phase = fleet.Provisioning
	for _, c := range []struct {
		ns   fleet.Namespace
		cell CellReport
		want []string
	}{
		{ns, CellReport{}, nil},
		{ns, CellReport{State: wire.Opened}, nil},
		{ns, CellReport{State: wire.Failed, Error: "no room"}, []string{"host_a", "no room"}},
		{ns, CellReport{State: wire.Waiting, Error: "elsewhere"}, []string{"host_a", "elsewhere"}},
		{lost, CellReport{State: wire.Opened}, []string{"host_a", "store_a"}},
		{minted(ns, true), opened(1, own), nil},
		{minted(ns, true), opened(1, nil), nil},
		{minted(ns, true), opened(1, other), []string{"host_a", own[0].String(), other[0].String()}},
		{ns, opened(1, own), nil},
		{creating, CellReport{State: wire.Failed, Error: "no room"}, nil},
	} {
		got := Fault(c.ns, c.cell)
		if (got == "") != (c.want == nil) {
			t.Errorf("%+v, %+v: %q", c.ns, c.cell, got)
		}
		for _, part := range c.want {
			if !strings.Contains(got, part) {
				t.Errorf("%q does not say %q", got, part)
			}
		}
	}
}
