package reconcile

import (
	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/plan"
)

// reportChain holds the last report of a host that was taken. The next one must continue it or be full, because a report
// in between that was lost would leave a hole.
type reportChain struct {
	run      int64             // number of the process that sent it
	sequence int64             // 0 = none was taken in this term
	partial  bool              // it is a part of a full report whose last part has not come
	parts    []wire.CellReport // the cells in the parts of that full report so far
}

// fate is the decision about a report.
type fate int

const (
	taken    fate = iota
	repeated      // it was taken before
	refused       // it continues a report that was not taken, or is older than the last one that was
)

// fate decides about the next report of the host, which one of its processes has sent.
func (c *reportChain) fate(run int64, r wire.Report) fate {
	switch {
	case run == c.run && r.Sequence == c.sequence:
		return repeated
	case run < c.run, run == c.run && r.Sequence < c.sequence:
		return refused
	case r.Base == 0: // a full report needs no other
		return taken
	case run != c.run || r.Base != c.sequence:
		return refused
	case r.More && !c.partial: // it says to be a part of a full report, of which the first part is missing
		return refused
	}
	return taken
}

// Observe records a report that a process of a host sent while this process led in the given term. full says that the
// host must send a full report, because this one continues another that these observations lack, or because this process
// has begun to lead in a later term. Then, and after an error, the report changes nothing, and the host does not count
// as alive by it.
func (o *Observations) Observe(term uint64, id string, run int64, r wire.Report) (full bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lead(term); term < o.term {
		return true, nil
	}
	h := o.host(id)
	if f := h.chain.fate(run, r); f != taken {
		return f == refused, nil
	}
	whole := r.Base == 0 || h.chain.partial
	cells := r.Cells
	if r.Base != 0 && h.chain.partial {
		cells = append(h.chain.parts, cells...)
	}
	if err := h.checkRoom(cells, whole); err != nil {
		return false, err
	}
	h.chain = reportChain{run: run, sequence: r.Sequence, partial: r.More}
	if r.More {
		h.chain.parts = cells
		return false, nil
	}
	changed := o.merge(h, cells, r.Ended, whole)
	revived := !o.alive(h)
	h.reported = h.seen
	if revived || changed {
		close(o.fresh)
		o.fresh = make(chan struct{})
	}
	h.capacity = wire.Capacity{}
	if r.Capacity != nil {
		h.capacity = *r.Capacity
	}
	return false, nil
}

// checkRoom refuses a report with which the host would have more than wire.MaxReportCells cells.
func (h *observed) checkRoom(cells []wire.CellReport, whole bool) error {
	number := len(cells)
	if !whole {
		number = len(h.cells)
		for _, c := range cells {
			if _, has := h.cells[c.Namespace]; !has {
				number++
			}
		}
	}
	if number <= wire.MaxReportCells {
		return nil
	}
	return api.Errorf(api.ValidationError, "cells: the host has %d: at most %d are taken", number, wire.MaxReportCells)
}

// merge replaces the cells of a host, or only those in a delta, and notes the namespaces with something new. changed
// reports whether there are such namespaces, or a cell has ended. The caller holds mu.
func (o *Observations) merge(h *observed, cells []wire.CellReport, ended []string, whole bool) (changed bool) {
	next, before := h.cells, len(h.cells)
	if whole {
		next = make(map[string]observedCell, len(cells))
	}
	for _, c := range cells {
		cell := plan.CellReport{Generation: c.Generation, State: c.State, Error: c.Error, Incarnations: c.Incarnations, Groups: c.Groups}
		since := h.seen
		if was, ok := h.cells[c.Namespace]; ok && cell.Equal(was.CellReport) {
			since = was.since
		} else {
			o.news[c.Namespace], changed = true, true
		}
		next[c.Namespace] = observedCell{cell, since}
	}
	for _, ns := range ended {
		delete(next, ns)
	}
	h.cells = next
	return changed || len(next) != before
}
