package plan

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/fleet"
)

// life is a namespace of one shard with its hosts. Its group does at once all that it can do.
type life struct {
	t      *testing.T
	ns     fleet.Namespace
	hosts  []Host
	voters []string
	list   int64 // generation of the list in the group's state
	raft   uint64
	held   bool            // the group takes no list
	full   map[string]bool // hosts that cannot open the namespace
	out    strings.Builder
}

// TestLives plays the files of testdata. A command is a line, and the golden output follows it, indented:
//
//	hosts h1 h2      further hosts, which report
//	zone z h1 h2     put hosts in a zone
//	plain h1         h1 has no address for Raft
//	create N         the namespace, with N replicas
//	replicas N       another number of replicas
//	silent h1        h1 does not report
//	dead h1          h1 has not reported for the whole grace
//	back h1          h1 reports again
//	wipe h1          h1 reports again, with another store
//	drain h1         h1 drains
//	busy h1          MaxChanges other namespaces on h1 change their members
//	free h1          one fewer does
//	region h1        h1 is in another region
//	cells h1         h1 has no room for further cells
//	full h1          h1 cannot open the namespace
//	hold, release    the group takes no list; it takes them again
//	pause, resume    the reconciliation
//	move h1 h2       an operator moves the member on h1 to h2
//	delete           the namespace
//	run              make steps until there is none
//	fault            print the fault
func TestLives(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d lives, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			l := &life{t: t, full: map[string]bool{}}
			for line := range strings.Lines(string(want)) {
				if strings.HasPrefix(line, "  ") {
					continue // the output, which is printed anew
				}
				l.out.WriteString(line)
				if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
					l.do(words[0], words[1:])
				}
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte(l.out.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if l.out.String() != string(want) {
				t.Errorf("the life is now\n%s", l.out.String())
			}
		})
	}
}

func (l *life) do(command string, words []string) {
	switch command {
	case "create", "replicas":
		replicas, err := strconv.Atoi(words[0])
		if err != nil {
			l.t.Fatal(err)
		}
		if command == "create" {
			l.ns = minted(ns(fleet.Provisioning, "", 1), false)
		}
		l.ns.Spec.Replicas = replicas
	case "delete":
		l.ns.Phase, l.ns.Generation = fleet.Deleting, l.ns.Generation+1
	case "hold", "release":
		l.held = command == "hold"
	case "pause":
		l.ns = paused(l.ns)
	case "resume":
		l.ns.PausedNs = 0
	case "run":
		l.run()
	case "move":
		step := Move(l.ns, l.hosts, l.reports(), words[0], words[1])
		fmt.Fprintf(&l.out, "  %s\n", print(step))
		if step.Kind == Change {
			l.step(step)
		}
	case "fault":
		fmt.Fprintf(&l.out, "  %s\n", Fault(l.ns, l.hosts, l.reports()))
	case "zone":
		for _, id := range words[1:] {
			l.host(id).Zone = words[0]
		}
	default:
		for _, id := range words {
			l.doHost(command, id)
		}
	}
}

func (l *life) doHost(command, id string) {
	if command == "hosts" {
		l.hosts = append(l.hosts, host(id, 0, true))
		return
	}
	h := l.host(id)
	switch command {
	case "plain":
		h.Raft = ""
	case "silent", "dead":
		h.Alive, h.Away, h.Dead = false, true, command == "dead"
	case "back":
		h.Alive, h.Away, h.Dead = true, false, false
	case "wipe":
		h.Alive, h.Away, h.Dead = true, false, false
		for i, m := range l.ns.Members {
			l.ns.Members[i].Lost = m.Lost || m.Store == h.Store
		}
		h.Store += "'"
	case "full":
		l.full[id] = true
	case "drain":
		h.Draining = true
	case "busy":
		h.Changes = MaxChanges
	case "free":
		h.Changes = MaxChanges - 1
	case "region":
		h.Region = "us"
	case "cells":
		h.Cells, h.Capacity.MaxCells = 9, 9
	default:
		l.t.Fatalf("%q is no command", command)
	}
}

func (l *life) host(id string) *Host {
	at := slices.IndexFunc(l.hosts, func(h Host) bool { return h.ID == id })
	if at < 0 {
		l.t.Fatalf("%s is no host", id)
	}
	return &l.hosts[at]
}

// of returns the host that runs a store now.
func (l *life) of(store string) (Host, bool) {
	for _, h := range l.hosts {
		if h.Store == store && h.Alive {
			return h, true
		}
	}
	return Host{}, false
}

func (l *life) run() {
	for range 20 {
		step := Next(l.ns, l.hosts, l.reports())
		fmt.Fprintf(&l.out, "  %s\n", print(step))
		if step.Kind == None || step.Kind == Await {
			return
		}
		l.step(step)
	}
	l.t.Fatalf("the steps find no end:\n%s", l.out.String())
}

// step does a step as the store of the control plane does.
func (l *life) step(step Step) {
	switch step.Kind {
	case Place, Replace:
		l.ns.Members = nil
		l.members(step.Stores)
		if step.Kind == Replace {
			l.ns.Generation++
		}
	case Found:
		l.ns.Founded = true
	case Change:
		l.ns.Generation++
		l.members(step.Stores)
	case Settle:
		l.ns.Phase, l.ns.Observed = fleet.Active, l.ns.Generation
		l.ns.Members = slices.DeleteFunc(l.ns.Members, func(m fleet.GroupMember) bool { return m.Leaving })
	case Remove:
		l.ns.Phase = fleet.Deleted
	}
}

// members makes stores the list of members, and leaves the others as they leave.
func (l *life) members(stores []string) {
	old := l.ns.Members
	l.ns.Members = nil
	for _, store := range stores {
		h, _ := l.of(store)
		m := fleet.GroupMember{Store: store, Host: h.ID, Raft: h.Raft}
		if at := slices.IndexFunc(old, func(m fleet.GroupMember) bool { return m.Store == store }); at >= 0 {
			m = old[at]
			m.Leaving = false
		}
		l.ns.Members = append(l.ns.Members, m)
	}
	for _, m := range old {
		if !slices.Contains(stores, m.Store) {
			m.Leaving = true
			l.ns.Members = append(l.ns.Members, m)
		}
	}
}

// reports lets the hosts follow the newest document, and returns their reports.
func (l *life) reports() map[string]CellReport {
	cells := map[string]CellReport{}
	leader := l.group()
	members := slices.Clone(l.ns.Members)
	slices.SortStableFunc(members, func(a, b fleet.GroupMember) int { return compareBool(!a.Lost, !b.Lost) })
	for _, m := range members {
		h, alive := l.of(m.Store)
		if m.Lost {
			cells[m.Host] = CellReport{Generation: l.ns.Generation, State: wire.Waiting, Error: "elsewhere", Lasting: true}
		}
		if !alive {
			continue
		}
		c := CellReport{Generation: l.ns.Generation, State: wire.Opened, Incarnations: own, Lasting: true}
		switch {
		case l.ns.Phase == fleet.Deleting:
			c = CellReport{Generation: l.ns.Generation, State: wire.Gone}
		case l.full[h.ID]:
			c = CellReport{Generation: l.ns.Generation, State: wire.Failed, Error: "no space left", Lasting: true}
		case m.Store == leader:
			c.Groups = []wire.GroupReport{{Role: wire.Leading, Epoch: 1, Generation: l.list, Configuration: l.raft, Voters: l.voters}}
		case slices.Contains(l.voters, m.Store):
			c.Groups = []wire.GroupReport{{Role: wire.Following}}
		default:
			c.Groups = []wire.GroupReport{{Role: wire.Joining}}
		}
		cells[h.ID] = c
	}
	return cells
}

// group lets the members follow the list, and returns the leader; "" = none. New members come before old ones leave.
func (l *life) group() (leader string) {
	if l.voters == nil && len(l.ns.Members) > 0 {
		if _, alive := l.of(l.ns.Members[0].Store); alive {
			l.voters, l.raft = []string{l.ns.Members[0].Store}, 1
		}
	}
	var up, list []string
	for _, store := range l.voters {
		if _, alive := l.of(store); alive {
			up = append(up, store)
		}
	}
	if len(up) <= len(l.voters)/2 {
		return ""
	}
	leader = up[0]
	if l.held || !l.ns.Founded {
		return leader
	}
	l.list = l.ns.Generation
	for _, m := range l.ns.Listed() {
		if h, alive := l.of(m.Store); (!alive || l.full[h.ID]) && !slices.Contains(l.voters, m.Store) {
			return leader // a learner that does not catch up
		}
		list = append(list, m.Store)
	}
	if !slices.Equal(l.voters, list) {
		l.voters, l.raft = list, l.raft+1
	}
	if !slices.Contains(list, leader) {
		for _, store := range list {
			if _, alive := l.of(store); alive {
				return store
			}
		}
	}
	return leader
}
