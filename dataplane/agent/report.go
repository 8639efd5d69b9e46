package agent

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/corvo/corvo/api/fleet"
)

// tell has a report sent at once.
func (a *Agent) tell() {
	select {
	case a.news <- struct{}{}:
	default:
	}
}

// reportAlways reports when something has changed, and every fleet.ReportEvery,
// until the agent ends. Reports are whole: one that is lost is made up for by the
// next.
func (a *Agent) reportAlways() {
	every := time.NewTicker(fleet.ReportEvery)
	defer every.Stop()
	failed := false
	for {
		select {
		case <-a.ctx.Done():
			return
		case <-a.news:
		case <-every.C:
		}
		if a.member.Token() == "" {
			continue // not joined yet, which the member tells of
		}
		r := a.report()
		err := a.member.Report(a.ctx, r)
		if err != nil {
			a.used.giveBack(r.LastUsed)
		}
		if err != nil && !failed && a.ctx.Err() == nil {
			a.cfg.Logger.Warn("the control plane does not take this host's reports: trying on", "error", err)
		}
		failed = err != nil
		a.reported.Store(!failed)
	}
}

// report is where the host stands now.
func (a *Agent) report() fleet.Report {
	r := fleet.Report{Number: a.member.Number(), Cells: []fleet.CellReport{}, LastUsed: a.used.take()}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.placements {
		r.Cells = append(r.Cells, fleet.CellReport{
			Namespace: p.doc.Namespace, Generation: p.generation, State: cmp.Or(p.state, fleet.Opening), Error: p.reason,
		})
	}
	slices.SortFunc(r.Cells, func(x, y fleet.CellReport) int { return cmp.Compare(x.Namespace, y.Namespace) })
	return r
}

// lastUsed is when keys were last used, since it was last taken. Only keys that
// open something get here, so they are bounded as keys are.
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

func (l *lastUsed) take() map[string]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.unix
	l.unix = nil
	return taken
}

// giveBack returns what could not be reported.
func (l *lastUsed) giveBack(unix map[string]int64) {
	for id, at := range maps.All(unix) {
		l.note(id, at)
	}
}
