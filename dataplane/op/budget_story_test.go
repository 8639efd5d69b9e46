package op_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

func init() {
	builders["put-budget"] = (*story).putBudget
	builders["delete-budget"] = func(s *story, items []item) op.Op {
		return &op.DeleteResource{Meta: s.meta(items[0]), Kind: state.ResourceKind_RESOURCE_KIND_BUDGET, Name: items[0].words[0], Shards: 1}
	}
	builders["turn-budgets"] = (*story).turnBudgets

	moreValid = append(moreValid,
		func(w *world) op.Op {
			id := w.newID("")
			return &op.TurnBudgets{Turns: []*op.Turn{{Id: id[:], Window: state.Window_WINDOW_DAY, SeenEndNs: 2, StartNs: 2, EndNs: 3}}}
		},
	)
	prepare["turn-budgets"] = func(w *world) op.Op {
		put := w.newBudget("namespace", "default", &state.Budget{
			Limits: []*state.SpendLimit{{Window: state.Window_WINDOW_DAY, LimitNanoUsd: 100}}, ReserveNanoUsd: 10,
		})
		w.apply(put)
		w.clockNs += int64(24 * time.Hour)
		return &op.TurnBudgets{Turns: w.turns()}
	}
}

// periods are the calendar's windows.
var periods = map[state.Window]billing.Period{
	state.Window_WINDOW_DAY: billing.Day, state.Window_WINDOW_WEEK: billing.Week, state.Window_WINDOW_MONTH: billing.Month,
}

// windowsOf returns the calendar windows of a budget, in UTC.
func (w *world) windowsOf(b *state.Budget) (all []*state.Spent) {
	for _, l := range b.Limits {
		if p, ok := periods[l.Window]; ok {
			start, end := p.Window(time.Unix(0, w.clockNs), time.UTC)
			all = append(all, &state.Spent{Window: l.Window, StartNs: start.UnixNano(), EndNs: end.UnixNano()})
		}
	}
	return all
}

// newBudget builds the declaration of a budget for a scope and target.
func (w *world) newBudget(scope, target string, b *state.Budget) *op.PutResource {
	b.Scope, _ = op.ParseScope(scope)
	b.Target = target
	id := w.newID("")
	return &op.PutResource{
		Meta:    &op.Meta{Ids: [][]byte{id[:]}},
		Windows: w.windowsOf(b),
		Resource: &state.Resource{
			Kind: state.ResourceKind_RESOURCE_KIND_BUDGET, Name: scope + "/" + target, Shards: 1, Budget: b,
		},
	}
}

// turns returns the windows that are over, as the duty would turn them.
func (w *world) turns() (turns []*op.Turn) {
	for _, r := range w.store.ResourceIndex().Resources(state.ResourceKind_RESOURCE_KIND_BUDGET) {
		a := w.account(r)
		for _, now := range w.windowsOf(r.Budget) {
			for _, spent := range a.Spent {
				if spent.Window == now.Window && spent.EndNs <= w.clockNs {
					turns = append(turns, &op.Turn{Id: r.Id, Window: now.Window, SeenEndNs: spent.EndNs, StartNs: now.StartNs, EndNs: now.EndNs})
				}
			}
		}
	}
	return turns
}

func (w *world) account(r *state.Resource) *state.Account {
	a, err := w.store.Account([16]byte(r.Id))
	if err != nil || a == nil {
		w.t.Fatalf("account of %s: %v, %v", r.Name, a, err)
	}
	return a
}

// putBudget reads scope/target (a tag is name:value), daily=, weekly=, monthly=, rolling= with window=,
// per-job=, reserve=, on=, alerts= and raise= with until=.
func (s *story) putBudget(items []item) op.Op {
	i := items[0]
	b := &state.Budget{
		PerJobNanoUsd: int64(i.number(s.t, "per-job", 0)), ReserveNanoUsd: int64(i.number(s.t, "reserve", 10)), Timezone: "UTC",
		RaiseNanoUsd: int64(i.number(s.t, "raise", 0)), RaiseUntilNs: s.at(i, "until"),
		OnExceed: map[string]state.OnExceed{"hold": 0, "reject": 1, "alert_only": 2, "throttle": 3, "strange": 9}[i.text("on", "hold")],
	}
	for _, l := range []struct {
		name   string
		window state.Window
	}{{"daily", 1}, {"weekly", 2}, {"monthly", 3}, {"rolling", 4}, {"strange", 9}} {
		if _, ok := i.settings[l.name]; ok {
			b.Limits = append(b.Limits, &state.SpendLimit{Window: l.window, LimitNanoUsd: int64(i.number(s.t, l.name, 0))})
			if l.name == "rolling" {
				b.Limits[len(b.Limits)-1].LengthMs = i.millis(s.t, "window", time.Hour)
			}
		}
	}
	for text := range strings.SplitSeq(i.text("alerts", ""), ",") {
		if text != "" {
			b.Alerts = append(b.Alerts, uint32((item{settings: map[string]string{"n": text}}).number(s.t, "n", 0)))
		}
	}
	scope, target, _ := strings.Cut(i.words[0], "/")
	o := s.newBudget(scope, strings.ReplaceAll(repeated(target), ":", "="), b)
	if i.has("without-windows") {
		o.Windows = nil
	}
	o.Resource.Shards = uint32(i.number(s.t, "shards", 1))
	o.Create, o.IfVersion = i.has("create"), i.number(s.t, "if", 0)
	s.names[job.ID(o.Meta.Ids[0])] = o.Resource.Name
	return o
}

// turnBudgets turns the windows that are over, or those named by words: scope/target seen= start= end=.
func (s *story) turnBudgets(items []item) op.Op {
	if len(items[0].words) == 0 {
		return &op.TurnBudgets{Turns: s.turns()}
	}
	o := &op.TurnBudgets{}
	for _, i := range items {
		t := &op.Turn{Id: make([]byte, 16), Window: state.Window_WINDOW_DAY, SeenEndNs: s.at(i, "seen"), StartNs: s.at(i, "start"), EndNs: s.at(i, "end")}
		if r := s.store.ResourceIndex().Resource(state.ResourceKind_RESOURCE_KIND_BUDGET, i.words[0]); r != nil {
			t.Id = r.Id
		}
		o.Turns = append(o.Turns, t)
	}
	return o
}

func (s *story) printBudgets() {
	for _, r := range s.store.ResourceIndex().Resources(state.ResourceKind_RESOURCE_KIND_BUDGET) {
		a := s.account(r)
		fmt.Fprintf(&s.out, "budget %s version %d: reserved %d", r.Name, r.Version, a.ReservedNanoUsd)
		for i, l := range r.Budget.Limits {
			spent := a.Spent[i]
			sums := spent.Sums(s.clockNs)
			word := strings.ToLower(strings.TrimPrefix(l.Window.String(), "WINDOW_"))
			fmt.Fprintf(&s.out, "; %s settled %d overrun %d available %d", word, int64(sums.Settled), int64(sums.Overrun), int64(a.Available(r.Budget, l, spent, s.clockNs)))
			if spent.EndNs != 0 {
				fmt.Fprintf(&s.out, ", from %s to %s", s.moment(spent.StartNs), s.moment(spent.EndNs))
			}
		}
		fmt.Fprintln(&s.out)
		s.printSlices(a)
	}
}

// overBudget returns a text for an item of a heartbeat whose job has cost too much, and "" for others.
func overBudget(r *op.HeartbeatResult, i int) string {
	if slices.Contains(r.OverBudget, uint32(i)) {
		return ", over budget"
	}
	return ""
}
