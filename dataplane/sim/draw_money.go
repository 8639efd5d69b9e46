package sim

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// The budgets in this file are small in proportion to the costs of jobs, so that all of them become full.

// The names that a workload draws. Some models have no price.
var (
	drawnModels    = []string{"", "m-1", "m-2", "n-1", "unheard-of"}
	drawnProviders = []string{"", "p1", "p2"}
	pricedModels   = []string{"m-1", "m-*", "m-2", "n*"}
)

// spending draws a new job's cost estimate and model.
func (w *workload) spending(n *op.NewJob) {
	if w.chance(3) {
		n.Opt().CostEstimateNanoUsd = 1 + w.rng.Int64N(60)
	}
	if w.chance(4) {
		n.Opt().Model = pick(w, drawnModels)
	}
}

func (w *workload) usage() *job.Usage {
	if !w.chance(2) {
		return nil
	}
	u := &job.Usage{Model: pick(w, drawnModels), Provider: pick(w, drawnProviders)}
	if !w.chance(3) {
		u.InputTokens, u.OutputTokens = w.rng.Int64N(1000), w.rng.Int64N(1000)
		u.CacheCreationTokens, u.CacheReadTokens = w.rng.Int64N(10), w.rng.Int64N(10)
	}
	switch w.rng.IntN(4) {
	case 0: // its worker does not know
	case 1:
		u.CostReported = true // it reports 0
	case 2:
		u.CostNanoUsd = w.rng.Int64N(40) // as workers reported before there were prices
	default:
		u.CostNanoUsd, u.CostReported = w.rng.Int64N(120), true
	}
	if w.chance(12) {
		w.distort(u)
	}
	return u
}

// distort makes a report as a broken worker would: at a limit, above it, beyond the range of numbers,
// negative, or with an invalid name.
func (w *workload) distort(u *job.Usage) {
	switch w.rng.IntN(7) {
	case 0:
		u.CostNanoUsd, u.CostReported = pick(w, []int64{job.MaxReportCost, job.MaxReportCost + 1, math.MaxInt64}), true
	case 1:
		u.InputTokens = pick(w, []int64{job.MaxReportTokens + 1, math.MaxInt64})
	case 2: // each within the limit, but not their sum
		u.OutputTokens, u.CacheReadTokens = job.MaxReportTokens, job.MaxReportTokens
	case 3:
		u.CacheCreationTokens = -1 - w.rng.Int64N(math.MaxInt64)
	case 4:
		u.CostNanoUsd = math.MinInt64
	case 5:
		u.Rejected = job.RejectedName
	default: // its computed cost exceeds the limit at most prices
		u.InputTokens, u.OutputTokens, u.CacheCreationTokens, u.CacheReadTokens = 0, job.MaxReportTokens, 0, 0
		u.CostNanoUsd, u.CostReported = 0, false
	}
}

// drawPrice draws a price. A million tokens cost so little that a report costs about as much as the reserve
// of an attempt.
func (w *workload) drawPrice() (name string, p *state.Price) {
	p = &state.Price{
		Provider: pick(w, drawnProviders), Model: pick(w, pricedModels), OverInputTokens: pick(w, []int64{0, 0, 500, 900}),
		InputNanoUsd: w.rng.Int64N(50_000), OutputNanoUsd: w.rng.Int64N(50_000), CacheCreationNanoUsd: w.rng.Int64N(500_000), CacheReadNanoUsd: w.rng.Int64N(500_000),
	}
	return fmt.Sprintf("%s/%s@%d", p.Provider, p.Model, p.OverInputTokens), p
}

func (w *workload) seedPrices() op.Op {
	o := &op.SeedPrices{Meta: duty(), Version: 1 + uint32(w.rng.IntN(6))}
	seen := map[string]bool{}
	for range 1 + w.rng.IntN(6) {
		name, p := w.drawPrice()
		if !seen[name] {
			seen[name] = true
			o.Prices = append(o.Prices, &state.Resource{Kind: state.ResourceKind_RESOURCE_KIND_SHIPPED_PRICE, Name: name, Id: idBytes([]job.ID{w.id("price")})[0], Price: p})
		}
	}
	return o
}

func (w *workload) price() *op.PutResource {
	name, p := w.drawPrice()
	return &op.PutResource{Resource: &state.Resource{Kind: state.ResourceKind_RESOURCE_KIND_PRICE, Name: name, Price: p}}
}

// budget draws a new or changed budget, or changes the raise of an existing one.
func (w *workload) budget() *op.PutResource {
	b := w.drawBudget()
	r := &state.Resource{Kind: state.ResourceKind_RESOURCE_KIND_BUDGET, Name: op.BudgetName(b.GetScope(), b.GetTarget()), Budget: b}
	if was := w.m.resources[modelName{r.Kind, r.Name}]; was != nil && w.chance(3) {
		r.Budget = proto.Clone(was.GetBudget()).(*state.Budget)
		r.Budget.RaiseNanoUsd, r.Budget.RaiseUntilNs = 0, 0
		w.raise(r.Budget)
	}
	return &op.PutResource{Resource: r, Windows: w.windows(r.Budget)}
}

// drawBudget draws a budget. If there are several shards, it draws only scopes that one shard can count
// alone.
func (w *workload) drawBudget() *state.Budget {
	b := &state.Budget{
		Scope: state.BudgetScope_BUDGET_SCOPE_QUEUE, Target: pick(w, pick(w, w.sh.shards).work.queues), ReserveNanoUsd: 1 + w.rng.Int64N(20),
		OnExceed: state.OnExceed(w.rng.IntN(4)), Timezone: "UTC", Alerts: [][]uint32{nil, {50}, {50, 100}, {80, 100, 150}}[w.rng.IntN(4)],
	}
	if n := w.rng.IntN(5); n == 0 {
		b.Scope, b.Target = state.BudgetScope_BUDGET_SCOPE_JOB, op.BudgetTarget
	} else if len(w.sh.shards) == 1 {
		switch n {
		case 1:
			b.Scope, b.Target = state.BudgetScope_BUDGET_SCOPE_NAMESPACE, op.BudgetTarget
		case 2:
			b.Scope, b.Target = state.BudgetScope_BUDGET_SCOPE_TAG, fmt.Sprintf("tenant=%d", w.rng.IntN(3))
		case 3:
			b.Scope, b.Target = state.BudgetScope_BUDGET_SCOPE_KEY, w.fairnessKey()
		}
	}
	for window := state.Window_WINDOW_DAY; b.Scope != state.BudgetScope_BUDGET_SCOPE_JOB && window <= state.Window_WINDOW_ROLLING; window++ {
		if w.chance(3) || window == state.Window_WINDOW_ROLLING && len(b.Limits) == 0 {
			l := &state.SpendLimit{Window: window, LimitNanoUsd: 20 + w.rng.Int64N(400)}
			if window == state.Window_WINDOW_ROLLING {
				l.LengthMs = pick(w, []time.Duration{time.Minute, 7 * time.Minute, 24 * time.Hour}).Milliseconds()
			}
			b.Limits = append(b.Limits, l)
		}
	}
	if len(b.Limits) == 0 || w.chance(4) {
		b.PerJobNanoUsd = 20 + w.rng.Int64N(150)
	}
	if w.chance(2) { // so that it is derived
		b.ReserveNanoUsd = 0
	}
	w.raise(b)
	return b
}

// raise draws a raise of a budget, now and then.
func (w *workload) raise(b *state.Budget) {
	if w.chance(3) {
		b.RaiseNanoUsd, b.RaiseUntilNs = 1+w.rng.Int64N(200), w.m.clockNs+1+w.rng.Int64N(int64(time.Minute))
	}
}

// calendar contains the windows that a proposer computes.
var calendar = map[state.Window]billing.Period{
	state.Window_WINDOW_DAY: billing.Day, state.Window_WINDOW_WEEK: billing.Week, state.Window_WINDOW_MONTH: billing.Month,
}

// windows returns a budget's current windows as its proposer sees them: in one of two time zones, and now and
// then by a clock that is behind.
func (w *workload) windows(b *state.Budget) (all []*state.Spent) {
	zone := pick(w, []*time.Location{time.UTC, time.UTC, time.FixedZone("east", 13*60*60)})
	nowNs := w.m.clockNs - pick(w, []int64{0, 0, int64(26 * time.Hour)})
	for _, l := range b.GetLimits() {
		if p, ok := calendar[l.GetWindow()]; ok {
			start, end := p.Window(time.Unix(0, nowNs), zone)
			all = append(all, &state.Spent{Window: l.GetWindow(), StartNs: start.UnixNano(), EndNs: end.UnixNano()})
		}
	}
	return all
}

// turnBudgets draws turns of windows that are over, and of some that are not.
func (w *workload) turnBudgets() op.Op {
	o := &op.TurnBudgets{Meta: duty(), Turns: w.turns(w.m.clockNs + pick(w, []int64{0, 0, int64(24 * time.Hour)}))}
	if len(o.Turns) == 0 {
		id := w.id("nobody's")
		o.Turns = []*op.Turn{{Id: id[:], Window: state.Window_WINDOW_DAY, SeenEndNs: 1, StartNs: 1, EndNs: 2}}
	}
	return o
}

// balanceBudgets draws an op without an effect, because the workload draws no budgets that shards share.
// Histories in package op test those.
func (w *workload) balanceBudgets() op.Op {
	o := &op.BalanceBudgets{Meta: duty()}
	for _, r := range w.m.declaredOf(state.ResourceKind_RESOURCE_KIND_BUDGET) {
		o.Ids = append(o.Ids, r.GetId())
	}
	if len(o.Ids) == 0 {
		id := w.id("nobody's")
		o.Ids = [][]byte{id[:]}
	}
	return o
}

// turns returns the turns that a duty would propose at a time.
func (w *workload) turns(nowNs int64) (turns []*op.Turn) {
	for _, r := range w.m.declaredOf(state.ResourceKind_RESOURCE_KIND_BUDGET) {
		for _, s := range w.m.accounts[string(r.GetId())].windows {
			if p, ok := calendar[s.kind]; ok && s.endNs <= nowNs {
				start, end := p.Window(time.Unix(0, nowNs), pick(w, []*time.Location{time.UTC, time.FixedZone("west", -11*60*60)}))
				if end.UnixNano() > s.endNs {
					turns = append(turns, &op.Turn{Id: r.GetId(), Window: s.kind, SeenEndNs: s.endNs, StartNs: start.UnixNano(), EndNs: end.UnixNano()})
				}
			}
		}
	}
	return turns
}
