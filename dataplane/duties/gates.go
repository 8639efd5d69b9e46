package duties

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// openedAtOnce is how many jobs of a gate are let go at once, and may be on their way
// to a worker.
const openedAtOnce = 64

// openPatience is how long a job that was let go is expected to be fetched. After that
// it counts no more, so that a queue without workers does not keep the jobs of others
// at the gate.
const openPatience = time.Second

// watch is what the leader knows of a gate that jobs wait at.
type watch struct {
	changes uint64 // of the gate, when it was looked at last
	next    int64  // when to look again if nothing changes
	// opened are jobs that were let go and not seen to be fetched, and when.
	opened map[job.ID]int64
}

// gateKey is what tells gates apart.
type gateKey struct {
	kind job.Gate
	name string
}

// openGates lets go of jobs that a gate keeps no more. A gate is looked at when something has happened that
// may have opened it, or at the time at which it opens by itself. The duty first checks the waiting jobs on a
// snapshot, so that it proposes nothing while a gate is closed.
func openGates(ctx context.Context, d *Duties) (next int64, err error) {
	next = never
	waiting := d.cfg.Store.Gates()
	there := make(map[gateKey]bool, len(waiting))
	for _, g := range waiting {
		key := gateKey{g.Kind, g.Name}
		there[key] = true
		w := d.gates[key]
		if w == nil {
			w = &watch{opened: map[job.ID]int64{}}
			d.gates[key] = w
		}
		if w.changes != g.Changes || w.next <= d.cfg.NowNs() {
			w.changes = g.Changes
			if err := d.openGate(ctx, g, w); err != nil {
				w.changes = 0 // it is looked at again whatever happens
				return 0, err
			}
		}
		next = min(next, w.next)
	}
	for key := range d.gates {
		if !there[key] {
			delete(d.gates, key)
		}
	}
	return next, nil
}

// openGate looks at a gate, and lets go of those of the jobs first in line that it
// keeps no more. The commit of that changes the gate, so that it is looked at again.
func (d *Duties) openGate(ctx context.Context, g state.Gate, w *watch) error {
	ids, err := d.passing(g, w)
	if err != nil {
		return fmt.Errorf("look at the jobs that wait for %q: %w", g.Name, err)
	}
	if len(ids) == 0 {
		return nil
	}
	if err := d.cfg.Propose(ctx, &op.OpenGate{Meta: &op.Meta{Principal: "duty"}, JobIds: ids}); err != nil {
		return err
	}
	nowNs := d.cfg.NowNs()
	for _, id := range ids {
		w.opened[job.ID(id)] = nowNs
	}
	w.next = min(w.next, nowNs+int64(openPatience))
	return nil
}

// passing are the first jobs in line at a gate that would pass it together, and with
// those that have and are not fetched yet. It sets when to look again.
func (d *Duties) passing(g state.Gate, w *watch) (ids [][]byte, err error) {
	snapshot := d.cfg.Store.Snapshot()
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	nowNs := d.cfg.NowNs()
	view := op.NewSnapshotView(snapshot, d.cfg.Store.ResourceIndex(), nowNs)
	w.next = never
	if err := w.reserve(snapshot, view, nowNs); err != nil {
		return nil, err
	}
	room := openedAtOnce
	if g.Kind == job.Gate_GATE_BUDGET && !d.cfg.Store.ResourceIndex().Resource(state.ResourceKind_RESOURCE_KIND_BUDGET, g.Name).Shared() {
		room = 1 // what the first will reserve is known when it has
	}
	if room -= len(w.opened); room <= 0 {
		return nil, nil
	}
	first, err := snapshot.AtGate(g.Kind, g.Name, openedAtOnce)
	if err != nil {
		return nil, err
	}
	for _, id := range first {
		j, err := snapshot.Job(id)
		if err != nil {
			return nil, err
		}
		opens, verdict, err := view.Opens(j)
		switch {
		case err != nil:
			return nil, err
		case opens:
			ids = append(ids, j.Id)
		case verdict.UntilNs > nowNs:
			w.next = min(w.next, verdict.UntilNs)
		}
		if len(ids) == room {
			break
		}
	}
	return ids, nil
}

// reserve counts the opened jobs that still wait for a fetch as if they had been fetched, and forgets the
// others.
func (w *watch) reserve(from *state.Snapshot, view *op.SnapshotView, nowNs int64) error {
	for id, openedNs := range w.opened {
		j, err := from.Job(id)
		if err != nil {
			return err
		}
		patient := openedNs + int64(openPatience)
		if j.GetState() != job.Pending || op.AtGate(j) || patient <= nowNs {
			delete(w.opened, id)
			continue
		}
		w.next = min(w.next, patient)
		if err := view.Reserve(j); err != nil {
			return err
		}
	}
	return nil
}
