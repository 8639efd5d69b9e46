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

// examinedAtOnce bounds the jobs that one look examines from the beginning of a gate, and the jobs that it examines of a
// sweep.
const examinedAtOnce = 64

// sweepPause is the time between two looks of a sweep.
const sweepPause = 100 * time.Millisecond

// watch is the leader's memory of a gate with waiting jobs.
type watch struct {
	changes uint64 // the gate's Changes at the last look
	next    int64  // when to look again if nothing changes
	// opened has the jobs that were let go and are not known to have been fetched, with the times of their
	// opening.
	opened map[job.ID]int64
	sweep  sweep
}

// sweep is the way of the duty through all jobs of a budget's gate, examinedAtOnce jobs a look. Jobs of different costs
// wait at such a gate, so a job may fit although none of the first ones does. A look at all jobs at once was rejected,
// because a gate may keep 100,000 jobs and changes with every ack. A change does not begin a sweep anew, because then
// no sweep of a gate that changes all the time would end; it makes the duty sweep once more.
type sweep struct {
	left     int   // sweeps to do, with the one in progress
	priority uint8 // the place of the next job
	number   uint64
	until    int64 // when the first of the examined jobs may pass if nothing changes
}

// ask makes the duty examine every job of the gate from now on.
func (s *sweep) ask() {
	if s.left = 1; s.priority != 0 || s.number != 0 {
		s.left = 2
	}
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
		if changed := w.changes != g.Changes; changed || w.next <= d.cfg.NowNs() {
			if changed || w.sweep.left == 0 {
				w.sweep.ask()
			}
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

// openGate examines jobs of a gate and lets go of those that the gate no longer keeps. The commit
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
	first, err := snapshot.AtGate(g.Kind, g.Name, examinedAtOnce)
	if err != nil {
		return nil, err
	}
	ids, _, err = w.examine(snapshot, view, first, room, &w.next)
	if err != nil || len(ids) > 0 || len(first) < examinedAtOnce || g.Kind != job.Gate_GATE_BUDGET {
		return ids, err
	}
	return w.examineBehind(snapshot, view, g, room)
}

// examine returns up to room jobs that may pass, and the last job that it has looked at. It lowers next to the earliest
// time at which one of the others may pass.
func (w *watch) examine(from *state.Snapshot, view *op.SnapshotState, jobs []job.ID, room int, next *int64) (ids [][]byte, last *job.Job, err error) {
	for _, id := range jobs {
		if last, err = from.Job(id); err != nil {
			return nil, nil, err
		}
		opens, verdict, err := view.Opens(last)
		switch {
		case err != nil:
			return nil, nil, err
		case opens:
			ids = append(ids, last.Id)
		case verdict.UntilNs > view.ClockNs():
			*next = min(*next, verdict.UntilNs)
		}
		if len(ids) == room {
			break
		}
	}
	return ids, last, nil
}

// examineBehind examines the next jobs of the sweep. While it finds none that may pass and jobs are left, it sets w.next
// to the time of the sweep's next look.
func (w *watch) examineBehind(from *state.Snapshot, view *op.SnapshotState, g state.Gate, room int) ([][]byte, error) {
	s := &w.sweep
	if s.left > 0 {
		if s.priority == 0 && s.number == 0 {
			s.until = never
		}
		jobs, err := from.AtGateFrom(g.Kind, g.Name, s.priority, s.number, examinedAtOnce)
		if err != nil {
			return nil, err
		}
		ids, last, err := w.examine(from, view, jobs, room, &s.until)
		if err != nil || len(ids) > 0 {
			return ids, err // the gate changes, and the next look begins with these jobs
		}
		if s.priority, s.number = 0, 0; len(jobs) == examinedAtOnce {
			s.priority, s.number = uint8(last.Priority), last.Number+1
		} else {
			s.left--
		}
	}
	if s.left > 0 {
		w.next = min(w.next, view.ClockNs()+int64(sweepPause))
	}
	w.next = min(w.next, s.until)
	return nil, nil
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
