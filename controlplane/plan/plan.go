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
	Place   Kind = "place"   // choose Host for the namespace
	Replace Kind = "replace" // place the namespace on Host instead of the lost store, with new incarnations
	Found   Kind = "found"   // record that the host has founded the groups with Incarnations
	Settle  Kind = "settle"  // the namespace works: finish its create
	Remove  Kind = "remove"  // the host has deleted the namespace's data, or there was never a host: finish its delete
)

// Step is the next action for a namespace.
type Step struct {
	Kind   Kind
	Host   string // of a Place or a Replace
	Reason string // of an Await, for people
	// Incarnations are those of a Found, by shard.
	Incarnations []entry.Incarnation
}

// Host is a data-plane host as the planner sees it.
type Host struct {
	ID         string
	Name       string
	Region     string
	Alive      bool          // it has reported lately
	Namespaces int           // placed on it
	Cells      int           // of the namespaces that are placed on it
	Capacity   wire.Capacity // in its last report; zero = not known
}

// CellReport is the last report of a host about the namespace; zero if the host has not reported on it.
type CellReport struct {
	Generation int64  // that the host acts on
	State      string // a word of wire.CellReport
	Error      string
	// Incarnations are those of the open groups, by shard.
	Incarnations []entry.Incarnation
}

// Equal reports whether two reports say the same.
func (c CellReport) Equal(other CellReport) bool {
	return c.Generation == other.Generation && c.State == other.State && c.Error == other.Error && slices.Equal(c.Incarnations, other.Incarnations)
}

// Next returns the next step for a namespace. hosts are all data-plane hosts, in any order; cell is the
// report of the host on which the namespace is placed.
//
// If an operator has paused the namespace's reconciliation, every step waits for the end of the pause.
//
// A namespace keeps its placement all its life, because its data is on that host and nowhere else, and an
// empty namespace under its name would be worse than none. So if that host does not report, a create or a
// deletion waits. Only a namespace whose store was lost before its founding was recorded is placed again,
// because no tenant has written to it.
func Next(ns fleet.Namespace, hosts []Host, cell CellReport) Step {
	step := next(ns, hosts, cell)
	if ns.PausedNs != 0 && step.Kind != None {
		return await("an operator of the cloud paused its reconciliation at %s", time.Unix(0, ns.PausedNs).UTC().Format(time.RFC3339))
	}
	return step
}

// next returns the next step as if the reconciliation were not paused.
func next(ns fleet.Namespace, hosts []Host, cell CellReport) Step {
	switch ns.Phase {
	case fleet.Provisioning:
		return provision(ns, hosts, cell)
	case fleet.Deleting:
		return remove(ns, hosts, cell)
	case fleet.Active:
		return record(ns, cell)
	}
	return Step{}
}

func provision(ns fleet.Namespace, hosts []Host, cell CellReport) Step {
	if ns.HostID == "" {
		return place(Place, ns, hosts)
	}
	if ns.StoreLost && !ns.Founded {
		return place(Replace, ns, hosts)
	}
	if wait, ok := follow(ns, hosts, cell); !ok {
		return wait
	}
	switch cell.State {
	case wire.Opened:
		return settle(ns, hosts, cell)
	case wire.Failed:
		return await("%s cannot open it and tries again: %s", naming(ns, hosts), cell.Error)
	case wire.Waiting:
		return await("%s does not open it: %s", naming(ns, hosts), cell.Error)
	}
	return await("%s is opening it", naming(ns, hosts))
}

// settle finishes a create once the founding is recorded. These are two steps, so that no tenant writes while a
// document that lets the host found may still be on its way.
func settle(ns fleet.Namespace, hosts []Host, cell CellReport) Step {
	switch {
	case len(cell.Incarnations) != ns.Spec.Shards:
		return await("%s reports the incarnations of %d groups, and the namespace has %d shards: start the control plane's version there", naming(ns, hosts), len(cell.Incarnations), ns.Spec.Shards)
	case Foreign(ns, cell):
		return await("%s has %v open, and the namespace's groups are %v: delete the namespace and create it again", naming(ns, hosts), cell.Incarnations, ns.Incarnations)
	case !ns.Founded:
		return Step{Kind: Found, Incarnations: cell.Incarnations}
	}
	return Step{Kind: Settle}
}

// record records the first report on a namespace of an earlier version, which knew no incarnations.
func record(ns fleet.Namespace, cell CellReport) Step {
	if ns.Founded || ns.HostID == "" || cell.State != wire.Opened || cell.Generation != ns.Generation {
		return Step{}
	}
	if len(cell.Incarnations) != ns.Spec.Shards || Foreign(ns, cell) {
		return Step{}
	}
	return Step{Kind: Found, Incarnations: cell.Incarnations}
}

// Foreign reports whether a host has opened groups of other incarnations than the namespace's.
func Foreign(ns fleet.Namespace, cell CellReport) bool {
	return cell.State == wire.Opened && len(cell.Incarnations) > 0 && len(ns.Incarnations) > 0 && !slices.Equal(cell.Incarnations, ns.Incarnations)
}

// Fault returns, for people, why the host of an active namespace cannot serve the namespace. It returns "" if
// no reason is known or the namespace is not active. cell is the report of that host.
func Fault(ns fleet.Namespace, cell CellReport) string {
	switch {
	case ns.Phase != fleet.Active:
		return ""
	case ns.StoreLost:
		return fmt.Sprintf("its data is on %s, and host %s has joined with another store since: start the host with the directory of that store, or delete the namespace", ns.Store, ns.HostID)
	case Foreign(ns, cell):
		return fmt.Sprintf("host %s has the groups %v open, and the namespace's are %v: stop the host, and start it with the directory of the namespace's", ns.HostID, cell.Incarnations, ns.Incarnations)
	case cell.State == wire.Failed || cell.State == wire.Waiting:
		return fmt.Sprintf("host %s does not serve it: %s", ns.HostID, cell.Error)
	}
	return ""
}

func remove(ns fleet.Namespace, hosts []Host, cell CellReport) Step {
	if ns.HostID == "" {
		return Step{Kind: Remove} // it was never placed
	}
	if cell.State == wire.Gone && cell.Generation == ns.Generation {
		return Step{Kind: Remove} // even if the host has died since
	}
	if wait, ok := follow(ns, hosts, cell); !ok {
		return wait
	}
	if cell.State == wire.Failed {
		return await("%s cannot delete its data and tries again: %s", naming(ns, hosts), cell.Error)
	}
	return await("%s is closing it and deleting its data", naming(ns, hosts))
}

// place returns a step of the given kind for the living host of the region that has room and the fewest
// namespaces. Among equals it chooses the first by id. If there is no such host, it returns an Await.
func place(kind Kind, ns fleet.Namespace, hosts []Host) Step {
	var best *Host
	var full []string
	for i := range hosts {
		h := &hosts[i]
		if !h.Alive || h.Region != ns.Spec.Region {
			continue
		}
		cells := ns.Spec.Shards
		if h.ID == ns.HostID {
			cells = 0 // they count already
		}
		if reason := Full(*h, cells); reason != "" {
			full = append(full, fmt.Sprintf("%s (%s): %s", h.Name, h.ID, reason))
			continue
		}
		if best == nil || h.Namespaces < best.Namespaces || h.Namespaces == best.Namespaces && h.ID < best.ID {
			best = h
		}
	}
	if best == nil && len(full) > 0 {
		return Step{Kind: Await, Reason: allFull(ns.Spec.Region, full)}
	}
	if best == nil {
		return await("no host in region %s reports: start one there", ns.Spec.Region)
	}
	return Step{Kind: kind, Host: best.ID}
}

// follow reports whether the host is alive and acts on the present generation; if not, it returns the step
// that waits for that, with the reason.
func follow(ns fleet.Namespace, hosts []Host, cell CellReport) (Step, bool) {
	name := naming(ns, hosts)
	alive := false
	for _, h := range hosts {
		alive = alive || h.ID == ns.HostID && h.Alive
	}
	switch {
	case !alive:
		return await("%s does not report: start it again", name), false
	case cell.State == "":
		return await("%s has not heard of it yet", name), false
	case cell.Generation < ns.Generation:
		return await("%s still acts on generation %d of it, not on %d", name, cell.Generation, ns.Generation), false
	case cell.Generation > ns.Generation:
		return await("%s acts on generation %d of it, and the control plane knows only %d: has its data been put back?", name, cell.Generation, ns.Generation), false
	}
	return Step{}, true
}

// naming returns the name of the namespace's host for people.
func naming(ns fleet.Namespace, hosts []Host) string {
	for _, h := range hosts {
		if h.ID == ns.HostID && h.Name != "" {
			return fmt.Sprintf("host %s (%s)", h.Name, h.ID)
		}
	}
	return "host " + ns.HostID
}

func await(format string, args ...any) Step {
	return Step{Kind: Await, Reason: fmt.Sprintf(format, args...)}
}
