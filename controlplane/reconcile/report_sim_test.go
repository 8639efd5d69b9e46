package reconcile

import (
	"errors"
	"slices"

	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/controlplane/plan"
)

// simPartBytes divides the full reports of hosts with more than a few namespaces.
const simPartBytes = 700

var errSimLost = errors.New("the report or its answer was lost")

// report lets a host report through the code of a real host. Each report and each part of one may be lost, repeated, late,
// and taken by either reconciler or by both, and its answer may be lost. A late one of an older process is refused.
func (w *simWorld) report(h *simHost) {
	if !h.alive {
		return
	}
	w.forget(h)
	run := h.run
	arrive := func(r wire.Report, to *Reconciler) (wire.ReportAnswer, error) {
		if run != h.run {
			return wire.ReportAnswer{}, errSimLost
		}
		full, err := to.cfg.Observations.Observe(leading(w.t, w.s), h.id, run, r)
		switch {
		case full:
			w.count["full report wanted"]++
		case r.Base != 0 && !r.More:
			w.count["delta"]++
		case r.More:
			w.count["part"]++
		}
		return wire.ReportAnswer{Full: full}, err
	}
	var by *Reconciler // whose answer arrives
	h.send = func(r wire.Report) (answer wire.ReportAnswer, err error) {
		by, err = nil, errSimLost
		for i, percent := range []int{80, 50} {
			if w.chance(percent) {
				by = w.r[i]
				answer, err = arrive(r, by)
			}
		}
		if w.chance(5) { // a repeat has the same effect as none
			_, _ = arrive(r, w.r[w.rng.IntN(2)])
		}
		if w.chance(5) {
			w.late = append(w.late, func() { _, _ = arrive(r, w.r[w.rng.IntN(2)]) })
		}
		if w.chance(5) {
			err = errSimLost
		}
		return answer, err
	}
	of := w.reportOf(h)
	if h.report.Report(of) == nil {
		w.checkReported(h, by, of)
	}
}

// reportTo lets a host report to one reconciler without faults.
func (w *simWorld) reportTo(h *simHost, to *Reconciler) {
	h.send = func(r wire.Report) (answer wire.ReportAnswer, err error) {
		answer.Full, err = to.cfg.Observations.Observe(leading(w.t, w.s), h.id, h.run, r)
		return answer, err
	}
	of := w.reportOf(h)
	if err := h.report.Report(of); err != nil {
		w.t.Fatal(err)
	}
	w.checkReported(h, to, of)
}

// checkReported checks that the reconciler that has acknowledged a report has all cells of the host, and no others.
func (w *simWorld) checkReported(h *simHost, by *Reconciler, of wire.Report) {
	cells := by.cfg.Observations.hosts[h.id].cells
	for _, c := range of.Cells {
		want := plan.CellReport{Generation: c.Generation, State: c.State, Error: c.Error, Incarnations: c.Incarnations, Groups: c.Groups}
		if got, ok := cells[c.Namespace]; !ok || !got.Equal(want) {
			w.t.Fatalf("%s has reported %+v of %s, and the observations are %+v", h.id, want, c.Namespace, got)
		}
	}
	if len(cells) != len(of.Cells) {
		w.t.Fatalf("%s has reported %d cells, and %d are observed", h.id, len(of.Cells), len(cells))
	}
}

// forget lets a host forget the deleted namespaces, as a real one does with the oldest.
func (w *simWorld) forget(h *simHost) {
	for id, d := range h.store.docs {
		_, has := h.store.copies[id]
		exists := slices.ContainsFunc(w.namespaces(), func(ns fleet.Namespace) bool { return string(ns.ID) == id })
		if d.Desired == wire.Absent && !has && !exists {
			delete(h.store.docs, id)
			w.count["forgotten"]++
		}
	}
}
