// Package plan chooses the reconciler's next step for one namespace. It is pure: the same state and
// observations give the same step.
package plan

import (
	"fmt"
	"slices"
	"time"

	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/engine/entry"
)

// Kind names the action of a step.
type Kind string

// The kinds of steps. Each kind but None and Await makes one change of the control plane's state. Doing a
// step again has no effect.
const (
	None    Kind = ""        // the namespace is as it should be
	Await   Kind = "await"   // another process must act first: see Reason
	Place   Kind = "place"   // choose Stores for the namespace; the first of them founds
	Replace Kind = "replace" // place the namespace on Stores instead of the founder's lost store, with new incarnations
	Found   Kind = "found"   // record that the founder has founded the groups with Incarnations
	Change  Kind = "change"  // make Stores the namespace's list of members
	Refound Kind = "refound" // refound the groups from the copy of the one store in Stores
	Settle  Kind = "settle"  // the groups have exactly the list of members: end the create or the change
	Remove  Kind = "remove"  // the members have deleted the namespace's data, or there was never one: finish its delete
)

// Step is the next action for a namespace.
type Step struct {
	Kind   Kind
	Stores []string // of a Place, a Replace or a Change: the list of members, in order
	Reason string   // of an Await, for people
	// Incarnations are those of a Found, by shard.
	Incarnations []entry.Incarnation
	// Configurations are those of a Settle: by shard, the index of a Raft configuration with exactly the list of members.
	Configurations []uint64
}

// Host is a data-plane host as the planner sees it. A host that is neither Alive nor Away has not reported to this
// leader of the control plane, which has not led for long enough to draw a conclusion.
type Host struct {
	ID         string
	Name       string
	Region     string
	Zone       string        // members of a namespace are spread over zones
	Store      string        // its data directory; "" = it has named none, and gets no namespace
	Raft       string        // where other hosts reach its Raft members; "" = nowhere
	Alive      bool          // it has reported lately
	Away       bool          // it has not reported for a while, during all of which this process has led
	Dead       bool          // it has not reported for so long that its members are replaced
	Draining   bool          // an operator empties it
	Namespaces int           // placed on it
	Cells      int           // of the namespaces that are placed on it
	Changes    int           // namespaces on it whose members change
	Capacity   wire.Capacity // in its last report; zero = not known
}

// CellReport is the last report of a host about the namespace; zero if the host has not reported on it.
type CellReport struct {
	Generation int64  // that the host acts on
	State      string // a word of wire.CellReport
	Error      string
	// Incarnations are those of the open groups, by shard.
	Incarnations []entry.Incarnation
	Groups       []wire.GroupReport // of the open groups, by shard
	Lasting      bool               // the host has said the same for a while
}

// Equal reports whether two reports say the same. It ignores Lasting.
func (c CellReport) Equal(other CellReport) bool {
	return c.Generation == other.Generation && c.State == other.State && c.Error == other.Error &&
		slices.Equal(c.Incarnations, other.Incarnations) && slices.EqualFunc(c.Groups, other.Groups, equalGroups)
}

// equalGroups ignores the positions, because they change with every write, and the level, which only matters when a host is
// chosen.
func equalGroups(a, b wire.GroupReport) bool {
	return a.Role == b.Role && a.Epoch == b.Epoch && a.Generation == b.Generation && a.Configuration == b.Configuration &&
		slices.Equal(a.Voters, b.Voters) && slices.Equal(a.Learners, b.Learners)
}

// Next returns the next step for a namespace. hosts are all data-plane hosts that have ever joined, in any order; cells
// are their reports on the namespace, by host id.
//
// If an operator has paused the namespace's reconciliation, every step waits for the end of the pause.
//
// A namespace is placed once. From then on its data is on its members and nowhere else, so that the list changes only
// while a leader of each shard reports: the leader takes the list into the group and adds members before it removes
// any. One change ends before the next begins, unless a member of the new list is gone too. Only a namespace whose
// founder was lost before the founding was recorded is placed again, because no tenant has written to it.
func Next(ns fleet.Namespace, hosts []Host, cells map[string]CellReport) Step {
	step := view{ns, hosts, cells}.next()
	if ns.PausedNs != 0 && step.Kind != None {
		return await("an operator of the cloud paused its reconciliation at %s", time.Unix(0, ns.PausedNs).UTC().Format(time.RFC3339))
	}
	return step
}

// view is everything that the planner knows.
type view struct {
	ns    fleet.Namespace
	hosts []Host
	cells map[string]CellReport // by host id
}

// next returns the next step as if the reconciliation were not paused.
func (v view) next() Step {
	switch v.ns.Phase {
	case fleet.Provisioning:
		return v.provision()
	case fleet.Active:
		return v.active()
	case fleet.Deleting:
		return v.remove()
	}
	return Step{}
}

func (v view) provision() Step {
	switch {
	case len(v.ns.Members) == 0:
		return v.place(Place)
	case v.ns.Founded:
		return v.settle()
	case v.ns.Listed()[0].Lost:
		return v.place(Replace)
	}
	return v.found(v.ns.Listed()[0])
}

// active returns the step towards the namespace's number of members, on hosts that live and do not drain.
func (v view) active() Step {
	switch {
	case len(v.ns.Members) == 0:
		return Step{}
	case !v.ns.Founded:
		return v.record()
	case v.ns.Observed < v.ns.Generation:
		return v.settle()
	}
	return v.pace(v.change())
}

// found records the founding. Settling is a later step, so that no tenant writes while a document that lets the
// founder found may still be on its way.
func (v view) found(founder fleet.GroupMember) Step {
	if trouble := v.trouble(founder); trouble != "" {
		return await("%s", trouble)
	}
	cell := v.cells[founder.Host]
	if len(cell.Incarnations) != v.ns.Spec.Shards {
		return await("%s reports the incarnations of %d groups, and the namespace has %d shards: start the control plane's version there", v.naming(founder.Host), len(cell.Incarnations), v.ns.Spec.Shards)
	}
	return Step{Kind: Found, Incarnations: cell.Incarnations}
}

// record records the first report on a namespace of an earlier version, which knew no incarnations.
func (v view) record() Step {
	cell := v.cells[v.ns.Members[0].Host]
	if cell.State != wire.Opened || cell.Generation != v.ns.Generation || len(cell.Incarnations) != v.ns.Spec.Shards || Foreign(v.ns, cell) {
		return Step{}
	}
	return Step{Kind: Found, Incarnations: cell.Incarnations}
}

// remove ends a delete once each member's host has deleted its copy. A host that is away does not delay the end if
// another has reported, because each copy has the namespace's usage; it deletes its copy when it returns.
func (v view) remove() Step {
	var left []fleet.GroupMember
	gone := 0
	for _, m := range v.ns.Members {
		if cell := v.cells[m.Host]; cell.State == wire.Gone && cell.Generation == v.ns.Generation {
			gone++ // even if the host has died since
		} else {
			left = append(left, m)
		}
	}
	for _, m := range left {
		h, known := v.host(m.Host)
		trouble, cell := v.silence(m.Host), v.cells[m.Host]
		switch {
		case gone > 0 && (h.Away || !known):
			continue
		case trouble == "" && cell.State == wire.Failed:
			trouble = fmt.Sprintf("%s cannot delete its data and tries again: %s", v.naming(m.Host), cell.Error)
		case trouble == "":
			trouble = fmt.Sprintf("%s is closing it and deleting its data", v.naming(m.Host))
		}
		return await("%s", trouble)
	}
	return Step{Kind: Remove}
}

// host returns a host; known is false if it is registered no more.
func (v view) host(id string) (h Host, known bool) {
	for _, h := range v.hosts {
		if h.ID == id {
			return h, true
		}
	}
	return Host{}, false
}

// gone reports whether a member will not come back by itself: its store is lost, or its host is dead or registered no
// more.
func (v view) gone(m fleet.GroupMember) bool {
	h, known := v.host(m.Host)
	return m.Lost || h.Dead || !known
}

// up reports whether a member's host reports that it has the groups open.
func (v view) up(m fleet.GroupMember) bool {
	h, _ := v.host(m.Host)
	return !m.Lost && h.Alive && v.cells[m.Host].State == wire.Opened
}

// naming returns the name of a host for people.
func (v view) naming(id string) string {
	if h, _ := v.host(id); h.Name != "" {
		return fmt.Sprintf("host %s (%s)", h.Name, id)
	}
	return "host " + id
}

func await(format string, args ...any) Step {
	return Step{Kind: Await, Reason: fmt.Sprintf(format, args...)}
}
