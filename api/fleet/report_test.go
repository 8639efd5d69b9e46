package fleet_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/engine/entry"
)

// reports is a control plane that takes every report, and a clock.
type reports struct {
	*fleet.Reporter
	t     *testing.T
	at    time.Time
	sent  []fleet.Report
	lose  int // number of next answers that are lost
	wants int // number of next reports instead of which it wants a full one
}

func newReports(t *testing.T) *reports {
	r := &reports{t: t, at: time.Unix(1_800_000_000, 0)}
	r.Reporter = fleet.NewReporter(func() time.Time { return r.at }, func(sent fleet.Report) (fleet.ReportAnswer, error) {
		r.sent = append(r.sent, sent)
		if r.lose > 0 {
			r.lose--
			return fleet.ReportAnswer{}, errors.New("lost")
		}
		r.wants--
		return fleet.ReportAnswer{Full: r.wants >= 0}, nil
	})
	return r
}

// expect reports the cells and compares the sent reports, in the form "sequence<base cells -ended +more".
func (r *reports) expect(when string, cells []fleet.CellReport, want ...string) {
	r.t.Helper()
	r.sent, r.wants = nil, max(r.wants, 0)
	err := r.Report(fleet.Report{Number: 7, Cells: cells})
	var got []string
	for _, s := range r.sent {
		text := fmt.Sprintf("%d<%d", s.Sequence, s.Base)
		for _, c := range s.Cells {
			text += " " + c.Namespace
		}
		for _, ns := range s.Ended {
			text += " -" + ns
		}
		if s.More {
			text += " +more"
		}
		got = append(got, text)
		if s.Number != 7 {
			r.t.Errorf("%s: the report is about document %d", when, s.Number)
		}
	}
	if err != nil {
		got = append(got, "error")
	}
	if !slices.Equal(got, want) {
		r.t.Errorf("%s: sent %q (%v), want %q", when, got, err, want)
	}
}

func cellOf(ns, state string) fleet.CellReport {
	return fleet.CellReport{Namespace: ns, Generation: 1, State: state}
}

// TestReporter checks that each report continues the last acknowledged one, and is full if there is none.
func TestReporter(t *testing.T) {
	t.Parallel()
	r := newReports(t)
	a, b, c := cellOf("a", fleet.Opened), cellOf("b", fleet.Opened), cellOf("c", fleet.Opening)
	r.expect("at first", []fleet.CellReport{a, b}, "1<0 a b")
	r.expect("without a change", []fleet.CellReport{a, b}, "2<1")
	r.expect("a new cell", []fleet.CellReport{a, b, c}, "3<2 c")
	c.State = fleet.Opened
	r.expect("a change and an end", []fleet.CellReport{b, c}, "4<3 c -a")
	r.lose = 1
	c.State = fleet.Failed
	r.expect("a lost answer", []fleet.CellReport{b, c}, "5<4 c", "error")
	r.lose = 1
	r.expect("a lost full report", []fleet.CellReport{b, c}, "6<0 b c", "error")
	r.expect("the next one", []fleet.CellReport{b}, "7<0 b")
	r.wants = 1
	r.expect("another process leads", []fleet.CellReport{b, a}, "8<7 a", "9<0 b a")
	r.expect("after it", []fleet.CellReport{b, a}, "10<9")
	r.wants = 2
	r.expect("the leaders change and change", []fleet.CellReport{b, a}, "11<10", "12<0 b a", "error")
	r.expect("and are there", []fleet.CellReport{b, a}, "13<0 b a")
	r.at = r.at.Add(fleet.FullReportEvery - 1)
	r.expect("before a minute is over", []fleet.CellReport{b, a}, "14<13")
	r.at = r.at.Add(1)
	r.expect("after it", []fleet.CellReport{b, a}, "15<0 b a")
	r.at = r.at.Add(fleet.FullReportEvery - 1)
	r.expect("before another", []fleet.CellReport{b, a}, "16<15")
}

// TestReporterDivides checks that a report has as many parts as its bytes need. A full one says which part is the last,
// and begins again after a part was lost. The parts of a delta are deltas.
func TestReporterDivides(t *testing.T) {
	t.Parallel()
	r := newReports(t)
	a, b, c := cellOf("a", fleet.Opened), cellOf("b", fleet.Opened), cellOf("c", fleet.Opened)
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	r.PartBytes = 2 * (len(text) + 1)
	r.expect("at the bound", []fleet.CellReport{a, b}, "1<0 a b")
	r.PartBytes--
	r.at = r.at.Add(fleet.FullReportEvery)
	r.lose = 1
	r.expect("over the bound, with a lost part", []fleet.CellReport{a, b, c}, "2<0 a +more", "error")
	r.expect("over the bound", []fleet.CellReport{a, b, c}, "3<0 a +more", "4<3 b +more", "5<4 c")
	a.State, b.State = fleet.Failed, fleet.Failed
	r.expect("a delta over the bound", []fleet.CellReport{a, b}, "6<5 a", "7<6 b -c")
	r.wants = 1
	a.State, b.State = fleet.Opened, fleet.Opened
	r.expect("the leader changes", []fleet.CellReport{a, b}, "8<7 a", "9<0 a +more", "10<9 b")
	a.Error = strings.Repeat("é", fleet.MaxReportError)
	r.PartBytes = 1
	r.expect("a cell larger than a part", []fleet.CellReport{a}, "11<10 a", "12<11 -b")
	if got := r.sent[0].Cells[0].Error; got != a.Error[:fleet.MaxReportError] {
		t.Errorf("the error has %d bytes", len(got))
	}
}

// largeHost returns the report of a host that leads all groups of namespaces with three replicas, with as many last uses
// as a report may have.
func largeHost(namespaces int) fleet.Report {
	store := func(n int) string { return fmt.Sprintf("%s%026d", fleet.StorePrefix, n) }
	all := fleet.Report{Number: 1 << 40, Capacity: &fleet.Capacity{OpenCells: namespaces, MaxCells: 100_000, DiskTotal: 1 << 40, DiskFree: 1 << 39, MaxDiskPercent: 80}}
	for n := range namespaces {
		all.Cells = append(all.Cells, fleet.CellReport{
			Namespace: fmt.Sprintf("ns_%026d", n), Generation: 3, State: fleet.Opened, Incarnations: []entry.Incarnation{{byte(n)}},
			Groups: []fleet.GroupReport{{Role: fleet.Leading, Epoch: 1, Generation: 3, Configuration: 1 << 30, Voters: []string{store(1), store(2), store(3)}}},
		})
	}
	return all
}

// TestTenThousandNamespaces checks that the full report of a large host has parts that the control plane takes.
func TestTenThousandNamespaces(t *testing.T) {
	t.Parallel()
	r := newReports(t)
	state := largeHost(10_000)
	state.LastUsed = make(map[string]int64, fleet.MaxReportKeys)
	for n := range fleet.MaxReportKeys {
		state.LastUsed[fmt.Sprintf("key_%026d", n)] = 1_800_000_000
	}
	if err := r.Report(state); err != nil {
		t.Fatal(err)
	}
	cells, keys := 0, 0
	for i, part := range r.sent {
		text, err := json.Marshal(part)
		if err != nil || len(text) > fleet.MaxReportBody {
			t.Errorf("part %d has %d bytes, at most %d are taken, %v", i, len(text), fleet.MaxReportBody, err)
		}
		cells += len(part.Cells)
		keys += len(part.LastUsed)
	}
	if cells != 10_000 || keys != fleet.MaxReportKeys || len(r.sent) < 2 {
		t.Errorf("%d parts with %d cells and %d keys", len(r.sent), cells, keys)
	}
}

// TestIdleHostSendsFewBytes measures the reports of a host with 1,000 namespaces during the minutes in which nothing changes.
func TestIdleHostSendsFewBytes(t *testing.T) {
	t.Parallel()
	const seconds = 2 * 60
	r := newReports(t)
	state := largeHost(1_000)
	if err := r.Report(state); err != nil {
		t.Fatal(err)
	}
	size := func(of fleet.Report) int {
		text, err := json.Marshal(of)
		if err != nil {
			t.Fatal(err)
		}
		return len(text)
	}
	every := size(state) * int(time.Second) / int(fleet.ReportEvery)
	sent := 0
	for range seconds * time.Second / fleet.ReportEvery {
		r.at, r.sent = r.at.Add(fleet.ReportEvery), nil
		if err := r.Report(state); err != nil {
			t.Fatal(err)
		}
		for _, s := range r.sent {
			sent += size(s)
		}
	}
	t.Logf("%d bytes a second; full reports only would be %d", sent/seconds, every)
	if sent/seconds > every/20 {
		t.Errorf("it sends %d bytes a second, and full reports only would be %d", sent/seconds, every)
	}
}

// TestReportsThatAreAlwaysRefused checks that a report ends if the control plane asks for full ones only.
func TestReportsThatAreAlwaysRefused(t *testing.T) {
	t.Parallel()
	r := newReports(t)
	r.wants = 1 << 30
	if err := r.Report(fleet.Report{}); api.CodeOf(err) != api.LeaderUnavailable || len(r.sent) != 2 {
		t.Errorf("after %d reports: %v", len(r.sent), err)
	}
}
