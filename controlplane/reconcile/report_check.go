package reconcile

import (
	"context"
	"maps"
	"slices"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/controlplane/plan"
	"github.com/corvo/corvo/engine/entry"
)

// A settled namespace needs the reconciler only when a host of a member reports something new, dies or drains. From such
// a report a namespace of an earlier version gets its first incarnations. A report of other incarnations is an alarm.

// addReported adds the namespaces with new reports to work, which holds the unsettled ones: see store.Unsettled.
func (r *Reconciler) addReported(ctx context.Context, work []fleet.Namespace) ([]fleet.Namespace, error) {
	maps.Copy(r.settled, r.cfg.Observations.News())
	for _, ns := range work {
		delete(r.settled, string(ns.ID))
	}
	for _, id := range slices.Sorted(maps.Keys(r.settled)) {
		ns, err := r.cfg.Store.Namespace(ctx, "", id)
		switch {
		case api.CodeOf(err) == api.NotFound: // deleted, or the report of a host that was put back to an older state
			r.setForeign(id, false)
		case err != nil:
			return nil, err
		default:
			work = append(work, ns)
		}
		delete(r.settled, id)
	}
	return work, nil
}

// lookAgain makes the next pass look at a namespace again.
func (r *Reconciler) lookAgain(ns fleet.Namespace) {
	if ns.Operation == "" {
		r.settled[string(ns.ID)] = true
	}
}

// compare logs the first host that has opened other groups than the namespace's. It leaves these groups alone,
// because tenants may want to keep either history.
func (r *Reconciler) compare(ns fleet.Namespace, cells map[string]plan.CellReport) {
	at := slices.IndexFunc(ns.Members, func(m fleet.GroupMember) bool { return plan.Foreign(ns, cells[m.Host]) })
	if r.setForeign(string(ns.ID), at >= 0) && at >= 0 {
		host := ns.Members[at].Host
		r.cfg.Logger.Error("a host has opened groups that are not the namespace's", "namespace", ns.ID, "host", host,
			"incarnations", ns.Incarnations, "opened", cells[host].Incarnations)
	}
}

// Foreign returns the number of namespaces whose hosts report other incarnations than the recorded ones.
func (r *Reconciler) Foreign() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.foreign)
}

func (r *Reconciler) setForeign(id string, is bool) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed = r.foreign[id] != is
	if is {
		r.foreign[id] = true
	} else {
		delete(r.foreign, id)
	}
	return changed
}

// forgetForeign drops the count of a term that has ended, because the next leader counts anew.
func (r *Reconciler) forgetForeign() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.foreign)
}

// bytesOf returns incarnations in the form of an op.
func bytesOf(all []entry.Incarnation) [][]byte {
	out := make([][]byte, len(all))
	for i := range all {
		out[i] = all[i][:]
	}
	return out
}
