package convert

import (
	"cmp"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/duties"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// exceedWords are the API's words for the treatment of jobs over a budget.
var exceedWords = map[string]state.OnExceed{
	api.ExceedHold:      state.OnExceed_ON_EXCEED_HOLD,
	api.ExceedReject:    state.OnExceed_ON_EXCEED_REJECT,
	api.ExceedThrottle:  state.OnExceed_ON_EXCEED_THROTTLE,
	api.ExceedAlertOnly: state.OnExceed_ON_EXCEED_ALERT_ONLY,
}

// FromBudget converts a budget and computes its calendar windows at nowNs. was is the present budget with
// that name, or nil; a raise of that budget continues. The op checks the target, the amounts and the alerts.
func FromBudget(f *Faults, r *api.BudgetRequest, was *state.Resource, nowNs int64) *op.PutResource {
	b := &state.Budget{
		Target:       r.Target,
		Timezone:     cmp.Or(r.Timezone, "UTC"),
		Alerts:       r.Alerts,
		RaiseNanoUsd: was.GetBudget().GetRaiseNanoUsd(),
		RaiseUntilNs: was.GetBudget().GetRaiseUntilNs(),
	}
	var known bool
	if b.Scope, known = op.ParseScope(r.Scope); !known {
		f.Invalid("scope", "%s is none: use namespace, queue, tag, key or job", text.Quote(r.Scope))
	}
	if b.OnExceed, known = exceedWords[cmp.Or(r.OnExceed, api.ExceedHold)]; !known {
		f.Invalid("on_exceed", "%s is none: use hold, reject, throttle or alert_only", text.Quote(r.OnExceed))
	}
	for _, l := range []struct {
		window state.Window
		field  string
		amount *money.Nano
	}{
		{state.Window_WINDOW_DAY, "daily_usd", r.DailyUSD}, {state.Window_WINDOW_WEEK, "weekly_usd", r.WeeklyUSD},
		{state.Window_WINDOW_MONTH, "monthly_usd", r.MonthlyUSD}, {state.Window_WINDOW_ROLLING, "rolling_usd", r.RollingUSD},
	} {
		if l.amount != nil {
			b.Limits = append(b.Limits, &state.SpendLimit{Window: l.window, LimitNanoUsd: int64(*l.amount)})
		}
	}
	rollingWindow(f, r, b)
	if r.PerJobUSD != nil {
		if b.PerJobNanoUsd = int64(*r.PerJobUSD); b.PerJobNanoUsd == 0 {
			f.Invalid("per_job_usd", "is 0: leave it out for no limit")
		}
	}
	if r.DefaultReserveUSD != nil {
		b.ReserveNanoUsd = int64(*r.DefaultReserveUSD)
	}
	windows, err := duties.BudgetWindows(b, nowNs)
	if err != nil {
		f.Invalid("timezone", "%v", err)
	}
	return &op.PutResource{Resource: &state.Resource{Budget: b}, Windows: windows}
}

// rollingWindow sets the length of the rolling window, which must be the last of b.Limits.
func rollingWindow(f *Faults, r *api.BudgetRequest, b *state.Budget) {
	switch {
	case r.RollingUSD == nil && r.RollingWindow != "":
		f.Invalid("rolling_window", "goes with rolling_usd")
	case r.RollingUSD != nil && r.RollingWindow == "":
		f.Invalid("rolling_window", "is missing: give a duration, such as \"24h\"")
	case r.RollingUSD != nil:
		b.Limits[len(b.Limits)-1].LengthMs = millis(f, "rolling_window", r.RollingWindow, 0, job.MaxRollingWindow)
	}
}

// FromRaise converts a raise of the budget in was to a new declaration of that budget, with its calendar
// windows at nowNs. was must hold a budget and stays as it is. The new raise replaces an earlier one. An
// amount of 0 ends the raise. Any other amount needs either r.For, at most job.MaxRollingWindow, or r.Until,
// which must lie in the future.
func FromRaise(f *Faults, r *api.RaiseBudgetRequest, was *state.Resource, nowNs int64) *op.PutResource {
	b := proto.Clone(was.Budget).(*state.Budget)
	b.RaiseNanoUsd, b.RaiseUntilNs = int64(valueOf(r.AmountUSD)), 0
	span, err := r.For.Parse(0)
	until, given, untilErr := r.Until.Parse()
	switch {
	case r.AmountUSD == nil:
		f.Invalid("amount_usd", "is missing: give the additional amount, 0 to end a raise")
	case err != nil:
		f.Invalid("for", "%v", err)
	case untilErr != nil:
		f.Invalid("until", "%v", untilErr)
	case *r.AmountUSD == 0: // the raise ends
	case given && span > 0:
		f.Invalid("for", "and until are both given: give one of them")
	case !given && span <= 0:
		f.Invalid("for", "or until is missing: give one of them")
	case given && api.UnixNs(until) <= nowNs:
		f.Invalid("until", "is over already")
	case given:
		b.RaiseUntilNs = api.UnixNs(until)
	case span > job.MaxRollingWindow:
		f.Invalid("for", "is %s; at most %s are allowed", span, job.MaxRollingWindow)
	default:
		b.RaiseUntilNs = nowNs + int64(span)
	}
	windows, err := duties.BudgetWindows(b, nowNs)
	if err != nil {
		f.Invalid("timezone", "%v", err)
	}
	return &op.PutResource{Resource: &state.Resource{Budget: b}, Windows: windows}
}

// reserveWords are the API's words for the sources of a budget's reserve.
var reserveWords = [...]string{
	state.ReserveNone: api.ReserveFromNone, state.ReserveDeclared: api.ReserveFromDefault, state.ReservePerJob: api.ReserveFromPerJob,
	state.ReserveEstimate: api.ReserveFromEstimate, state.ReserveFloor: api.ReserveFromFloor,
}

// ToBudget converts a budget to its API form at nowNs. a is the budget's account on the shard that was read.
// A shard that does not know this declaration yet has an old account or none (nil). A limit that has no
// window in the account shows no spending and, unless its window is rolling, no start and end. learned is the
// moving average of the cost of the queue's attempts; it is 0 for other scopes.
func ToBudget(r *state.Resource, a *state.Account, learned, nowNs int64) api.Budget {
	b := r.Budget
	reserve, from := b.Reserve(0, learned)
	out := api.Budget{
		Scope:             op.ScopeWord(b.Scope),
		Target:            b.Target,
		Timezone:          b.Timezone,
		DefaultReserveUSD: money.Nano(b.ReserveNanoUsd),
		ReserveUSD:        money.Nano(reserve),
		ReserveFrom:       reserveWords[from],
		Alerts:            append([]uint32{}, b.Alerts...),
		ReservedUSD:       money.Nano(a.GetReservedNanoUsd()),
		Windows:           []api.BudgetWindow{},
		CreatedAt:         timeOf(r.CreatedNs),
	}
	for word, what := range exceedWords {
		if what == b.OnExceed {
			out.OnExceed = word
		}
	}
	if b.PerJobNanoUsd != 0 {
		out.PerJobUSD = nano(b.PerJobNanoUsd)
	}
	if raise := b.RaiseNow(nowNs); raise != 0 {
		until := timeOf(b.RaiseUntilNs)
		out.RaiseUSD, out.RaiseUntil = raise, &until
	}
	if a == nil {
		a = &state.Account{}
	}
	for i, l := range b.Limits {
		showLimit(&out, l)
		spent := &state.Spent{Window: l.Window, LengthMs: l.LengthMs}
		if i < len(a.Spent) && a.Spent[i].Window == l.Window {
			spent = a.Spent[i]
		}
		out.Windows = append(out.Windows, toWindow(b, a, l, spent, nowNs))
	}
	return out
}

func nano(n int64) *money.Nano {
	v := money.Nano(n)
	return &v
}

// showLimit sets the fields of out that declare a limit.
func showLimit(out *api.Budget, l *state.SpendLimit) {
	switch amount := nano(l.LimitNanoUsd); l.Window {
	case state.Window_WINDOW_DAY:
		out.DailyUSD = amount
	case state.Window_WINDOW_WEEK:
		out.WeeklyUSD = amount
	case state.Window_WINDOW_MONTH:
		out.MonthlyUSD = amount
	case state.Window_WINDOW_ROLLING:
		length := api.DurationOf(time.Duration(l.LengthMs) * time.Millisecond)
		out.RollingUSD, out.RollingWindow = amount, &length
	}
}

// toWindow converts a limit and its spending to their API form. A rolling window ends at nowNs.
func toWindow(b *state.Budget, a *state.Account, l *state.SpendLimit, spent *state.Spent, nowNs int64) api.BudgetWindow {
	sums := spent.Sums(nowNs)
	w := api.BudgetWindow{
		LimitUSD:     money.Nano(l.LimitNanoUsd),
		Start:        timeOf(spent.StartNs),
		End:          timeOf(spent.EndNs),
		SettledUSD:   sums.Settled,
		OverrunUSD:   sums.Overrun,
		AvailableUSD: a.Available(b, l, spent, nowNs),
	}
	switch l.Window {
	case state.Window_WINDOW_DAY:
		w.Window = "daily"
	case state.Window_WINDOW_WEEK:
		w.Window = "weekly"
	case state.Window_WINDOW_MONTH:
		w.Window = "monthly"
	case state.Window_WINDOW_ROLLING:
		w.Window = "rolling"
		w.Start, w.End = timeOf(nowNs-l.LengthMs*int64(time.Millisecond)), timeOf(nowNs)
	}
	return w
}
