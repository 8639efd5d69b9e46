package agent

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/tenancy"
)

// Notify requests a report. It does not block.
func (a *Agent) Notify() {
	select {
	case a.reportDue <- struct{}{}:
	default:
	}
}

// reportLoop sends a report when the state has changed, and every fleet.ReportEvery, until the agent ends.
// The reporter makes up for reports that were lost.
func (a *Agent) reportLoop() {
	every := time.NewTicker(fleet.ReportEvery)
	defer every.Stop()
	reporter := fleet.NewReporter(a.cfg.Now, func(r fleet.Report) (fleet.ReportAnswer, error) { return a.member.Report(a.ctx, r) })
	failed := false
	for {
		select {
		case <-a.ctx.Done():
			return
		case <-a.reportDue:
		case <-every.C:
		}
		if a.member.Token() == "" {
			continue // not joined yet; the member logs that
		}
		r := a.report()
		err := reporter.Report(r)
		if err != nil {
			a.used.restore(r.LastUsed)
		}
		if err != nil && !failed && a.ctx.Err() == nil {
			a.cfg.Logger.Warn("the control plane does not accept this host's reports; the host tries again", "error", err)
		}
		failed = err != nil
		a.reported.Store(!failed)
	}
}

// report returns the present state of all placements. It takes the times of last use.
func (a *Agent) report() fleet.Report {
	r := fleet.Report{Number: a.member.Number(), Cells: a.cellReports(), Capacity: a.capacity(), LastUsed: a.used.take(fleet.MaxReportKeys)}
	for i := range r.Cells {
		if c := &r.Cells[i]; c.State == fleet.Opened {
			c.Groups = a.groupReports(tenancy.NamespaceID(c.Namespace))
		}
	}
	return r
}

func (a *Agent) cellReports() []fleet.CellReport {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make([]fleet.CellReport, 0, len(a.placements))
	for _, p := range a.placements {
		all = append(all, fleet.CellReport{
			Namespace: p.doc.Namespace, Generation: p.generation, State: cmp.Or(p.state, fleet.Opening), Error: p.reason,
			Incarnations: p.incarnations,
		})
	}
	slices.SortFunc(all, func(x, y fleet.CellReport) int { return cmp.Compare(x.Namespace, y.Namespace) })
	return all
}

// groupReports returns the state of this store's members in the groups of a namespace, by shard; nil if the namespace
// is not open any more.
func (a *Agent) groupReports(ns tenancy.NamespaceID) (all []fleet.GroupReport) {
	leave, err := a.host.Visit(ns) // so that it is not closed meanwhile
	if err != nil {
		return nil
	}
	defer leave()
	cells, err := a.host.Cells(ns)
	if err != nil {
		return nil
	}
	for _, c := range cells {
		m := c.Membership()
		g := fleet.GroupReport{Role: fleet.Joining}
		switch {
		case m.Leads:
			g = fleet.GroupReport{
				Role: fleet.Leading, Epoch: int64(m.List.GetEpoch()), Generation: int64(m.List.GetGeneration()),
				Configuration: m.Configuration, Voters: m.Voters, Learners: m.Learners, Usage: c.UsageClaim(),
			}
		case m.Joined:
			g.Role = fleet.Following
		}
		g.Level = c.Level()
		g.Last, g.Term = m.Last.Index, m.Last.Term
		all = append(all, g)
	}
	return all
}

// lastUsed collects the time of each key's last use since the last take. Only keys that open a namespace get
// here, so their number is bounded.
type lastUsed struct {
	mu   sync.Mutex
	unix map[string]int64 // key id -> Unix seconds
}

func (l *lastUsed) note(id string, unix int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unix == nil {
		l.unix = make(map[string]int64)
	}
	l.unix[id] = max(l.unix[id], unix)
}

// take removes and returns the times of at most some keys. The others wait for the next report.
func (l *lastUsed) take(most int) map[string]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.unix
	l.unix = nil
	for id, at := range taken {
		if len(taken) <= most {
			break
		}
		if l.unix == nil {
			l.unix = make(map[string]int64, len(taken)-most)
		}
		l.unix[id] = at
		delete(taken, id)
	}
	return taken
}

// restore puts times back that could not be reported.
func (l *lastUsed) restore(unix map[string]int64) {
	for id, at := range maps.All(unix) {
		l.note(id, at)
	}
}
