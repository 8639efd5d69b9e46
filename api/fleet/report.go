package fleet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
)

// partBytes is the default of Reporter.PartBytes. It leaves a quarter of MaxReportBody to the rest of the report, of which
// LastUsed is the largest.
const partBytes = MaxReportBody / 4 * 3

// Reporter sends the reports of one process of a host. It sends the cells that have changed since the last report that
// the control plane has acknowledged, and all cells if
//
//   - the last report was not acknowledged, because the control plane may have it or not,
//   - the control plane asks for a full report, because another process leads or that process has started since,
//   - or the last full report is FullReportEvery old, so that even a difference by a bug ends.
//
// A new process of a host needs a new Reporter, whose first report is full. A Reporter is not safe for concurrent use.
type Reporter struct {
	// PartBytes is the most bytes of encoded cells in one report. A report with more is divided. 0 = three quarters of
	// MaxReportBody.
	PartBytes int

	now      func() time.Time
	send     func(Report) (ReportAnswer, error)
	sequence int64             // of the last report
	base     int64             // Sequence of the last report if it was acknowledged; 0 = the next one is full
	cells    map[string]string // by namespace, the encoded cells of the report base
	full     time.Time         // time of the last full report that was acknowledged
}

// NewReporter returns the Reporter of a process that has just started. send sends one report.
func NewReporter(now func() time.Time, send func(Report) (ReportAnswer, error)) *Reporter {
	return &Reporter{now: now, send: send}
}

// Report reports the state of the host, which has all its cells. Report itself sets Sequence, Base, More and Ended. An
// error means that the control plane may lack a part of the state, such as LastUsed.
func (r *Reporter) Report(state Report) error {
	for range 2 { // a delta and then a full report, or a full report twice because the leader changed between two parts
		if taken, err := r.try(state); taken || err != nil {
			return err
		}
	}
	return api.Errorf(api.LeaderUnavailable, "the control plane asks for a full report again, because its leader has changed meanwhile")
}

// try sends a delta or a full report. taken is false if the control plane asks for a full one.
func (r *Reporter) try(state Report) (taken bool, err error) {
	now := r.now()
	full := r.base == 0 || now.Sub(r.full) >= FullReportEvery
	base := r.base
	if full {
		base = 0
	}
	r.base = 0 // until the control plane has acknowledged every part
	parts, cells, err := r.divide(state, full)
	if err != nil {
		return false, err
	}
	for i := range parts {
		p := &parts[i]
		r.sequence++
		p.Sequence, p.Base, p.More = r.sequence, base, full && i < len(parts)-1
		answer, err := r.send(*p)
		if err != nil || answer.Full {
			return false, err
		}
		base = p.Sequence
	}
	r.base, r.cells = base, cells
	if full {
		r.full = now
	}
	return true, nil
}

// divide returns the parts of a report, at least one, and all cells in their encoded form. A part of a delta is a delta by
// itself. Cells are compared in their encoded form, so that every field counts.
func (r *Reporter) divide(state Report, full bool) (parts []Report, cells map[string]string, err error) {
	cells = make(map[string]string, len(state.Cells))
	rest := Report{Number: state.Number, Capacity: state.Capacity}
	part := rest
	part.LastUsed = state.LastUsed
	size := 0
	// grow makes room for some bytes in the present part, or begins the next one.
	grow := func(bytes int) {
		if size > 0 && size+bytes > cmp.Or(r.PartBytes, partBytes) {
			parts, part, size = append(parts, part), rest, 0
		}
		size += bytes
	}
	for _, c := range state.Cells {
		c.Error = CutReportError(c.Error)
		text, err := json.Marshal(c)
		if err != nil {
			return nil, nil, fmt.Errorf("encode the report on namespace %s: %w", c.Namespace, err)
		}
		cells[c.Namespace] = string(text)
		if full || r.cells[c.Namespace] != string(text) {
			grow(len(text) + len(","))
			part.Cells = append(part.Cells, c)
		}
	}
	if !full {
		for _, ns := range slices.Sorted(maps.Keys(r.cells)) {
			if _, has := cells[ns]; !has {
				grow(len(ns) + len(`"",`))
				part.Ended = append(part.Ended, ns)
			}
		}
	}
	return append(parts, part), cells, nil
}

// CutReportError returns the beginning of the error of a cell, at most MaxReportError bytes of valid UTF-8.
func CutReportError(text string) string {
	if len(text) <= MaxReportError {
		return text
	}
	return strings.ToValidUTF8(text[:MaxReportError], "")
}
