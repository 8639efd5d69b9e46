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

// openedAtOnce bounds the jobs that the duty has let go from one gate and that no worker has fetched yet.
const openedAtOnce = 64

// openTimeout is the time that a worker has to fetch a job that was let go. After that time the job no longer
// counts, so that a queue without workers does not keep the jobs of other queues at the gate.
const openTimeout = time.Second

// watch is the leader's memory of a gate with waiting jobs.
type watch struct {
	changes uint64 // the gate's Changes at the last look
	next    int64  // when to look again if nothing changes
	// opened has the jobs that were let go and are not known to have been fetched, with the times of their
	// opening.
	opened map[job.ID]int64
}

// gateKey identifies a gate.
type gateKey struct {
	kind job.Gate
	name string
}

// openGates lets go of jobs that a gate keeps no more. It looks at a gate when something may have opened the
// gate, or when the gate opens by itself. The duty first checks the waiting jobs on a snapshot, so that it
// proposes nothing while a gate is closed.
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
				w.changes = 0 // so that the next pass looks again in any case
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

// openGate examines the first jobs of a gate and lets go of those that the gate no longer keeps. The commit
// changes the gate, so the duty examines it again.
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
	w.next = min(w.next, nowNs+int64(openTimeout))
	return nil
}

// passing returns the first jobs of a gate that could pass together, in addition to the jobs that have passed
// and are not fetched yet. It sets w.next, the time of the next look.
func (d *Duties) passing(g state.Gate, w *watch) (ids [][]byte, err error) {
	snapshot := d.cfg.Store.Snapshot()
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	nowNs := d.cfg.NowNs()
	view := op.NewSnapshotState(snapshot, d.cfg.Store.ResourceIndex(), nowNs)
	w.next = never
	if err := w.reserve(snapshot, view, nowNs); err != nil {
		return nil, err
	}
	room := openedAtOnce
	if g.Kind == job.Gate_GATE_BUDGET && !d.cfg.Store.ResourceIndex().Resource(state.ResourceKind_RESOURCE_KIND_BUDGET, g.Name).Shared() {
		room = 1 // the reserve of the first job is known only after its fetch
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
func (w *watch) reserve(from *state.Snapshot, view *op.SnapshotState, nowNs int64) error {
	for id, openedNs := range w.opened {
		j, err := from.Job(id)
		if err != nil {
			return err
		}
		expires := openedNs + int64(openTimeout)
		if j.GetState() != job.Pending || op.AtGate(j) || expires <= nowNs {
			delete(w.opened, id)
			continue
		}
		w.next = min(w.next, expires)
		if err := view.Reserve(j); err != nil {
			return err
		}
	}
	return nil
}
