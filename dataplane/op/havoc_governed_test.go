package op_test

import (
	"fmt"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// The declarations in a havoc that govern jobs: fairness keys and their rules, providers, budgets, policies,
// prices.

// governs gives a job a fairness key and a cost.
func (h *havoc) governs(nj *op.NewJob) {
	if h.once(2, "keyed") {
		nj.FairnessKey = fmt.Sprint("k", h.below(3, "fairness key"))
		nj.FairnessWeight = uint32(h.below(4, "weight"))
	}
	if h.once(3, "provider") {
		nj.Opt().Provider = fmt.Sprint("p", h.below(2, "of two"))
	}
	if h.once(3, "estimate") {
		nj.Opt().CostEstimateNanoUsd = int64(h.below(12, "estimated"))
	}
	if h.once(3, "tag") {
		nj.Tags = []*job.Pair{{Name: "t", Value: "v"}}
	}
	if h.once(6, "model") {
		nj.Opt().Model = "m"
	}
}

// declares returns an op by which a platform engineer creates or removes a resource. The first shard applies
// it and sends it to the other.
func (h *havoc) declares(s *havocShard) op.Op {
	if s.number != 0 {
		return nil
	}
	r := h.resource()
	r.Shards = 2
	if h.once(4, "takes back") {
		return &op.DeleteResource{Meta: h.meta(), Kind: r.Kind, Name: r.Name, Shards: 2}
	}
	id := h.w.newID("")
	o := &op.PutResource{Meta: h.meta(), Resource: r}
	o.Meta.Ids = [][]byte{id[:]}
	if r.Budget != nil {
		o.Windows = h.w.windowsOf(r.Budget)
	}
	return o
}

func (h *havoc) resource() *state.Resource {
	switch h.below(4, "resource") {
	case 0:
		rule := &state.LimitRule{
			Queue: h.anyQueue(), Key: []string{"k0", "k1", "*"}[h.below(3, "rule's key")],
			MaxConcurrency: uint32(h.below(3, "rule's most")), Paused: h.once(5, "rule pauses"),
		}
		if h.once(2, "rule's rate") {
			rule.RateLimit, rule.RateWindowMs = 1, int64(1000+h.below(2, "rule's window")*59_000)
		}
		return &state.Resource{Kind: state.ResourceKind_RESOURCE_KIND_LIMIT_RULE, Name: op.LimitRuleName(rule.Queue, rule.Key), LimitRule: rule}
	case 1:
		return &state.Resource{Kind: state.ResourceKind_RESOURCE_KIND_PROVIDER, Name: fmt.Sprint("p", h.below(2, "of two")), Provider: &state.Provider{
			Requests: uint64(h.below(3, "rpm") * 2), InputTokens: uint64(h.below(3, "in") * 2), OutputTokens: uint64(h.below(2, "out") * 4),
		}}
	case 2:
		return h.budget()
	}
	p := &state.ApprovalPolicy{Label: fmt.Sprint("l", h.below(2, "label")), All: h.once(2, "all")}
	switch h.below(3, "condition") {
	case 0:
		p.Queue = h.anyQueue()
	case 1:
		p.TagKey = "t"
	case 2:
		p.CostSaid, p.CostNanoUsdOver = true, int64(h.below(3, "over"))
	}
	return &state.Resource{Kind: state.ResourceKind_RESOURCE_KIND_APPROVAL_POLICY, Name: fmt.Sprint("pol", h.below(2, "policy")), ApprovalPolicy: p}
}

func (h *havoc) budget() *state.Resource {
	b := &state.Budget{ReserveNanoUsd: int64(1 + h.below(3, "reserve")), OnExceed: state.OnExceed(h.below(4, "on exceed"))}
	scope, target := "", ""
	switch h.below(5, "scope") {
	case 0:
		scope, target = "namespace", "default"
	case 1:
		scope, target = "queue", h.anyQueue()
	case 2:
		scope, target = "tag", "t=v"
	case 3:
		scope, target = "key", fmt.Sprint("k", h.below(3, "budget's key"))
	case 4:
		scope, target, b.PerJobNanoUsd = "job", "default", int64(5+h.below(10, "per job"))
	}
	if scope != "job" {
		b.Limits = []*state.SpendLimit{{Window: state.Window_WINDOW_DAY, LimitNanoUsd: int64(5 + h.below(20, "limit"))}}
		if h.once(2, "rolls") {
			b.Limits = append(b.Limits, &state.SpendLimit{Window: state.Window_WINDOW_ROLLING, LimitNanoUsd: int64(5 + h.below(20, "limit")), LengthMs: int64(60_000 * (1 + h.below(3, "length")))})
		}
		b.Alerts = [][]uint32{nil, {50}, {50, 100}}[h.below(3, "alerts")]
	}
	if h.once(4, "raised") {
		b.RaiseNanoUsd, b.RaiseUntilNs = 10, h.w.clockNs+int64(time.Hour)
	}
	b.Scope, _ = op.ParseScope(scope)
	b.Target = target
	return &state.Resource{Kind: state.ResourceKind_RESOURCE_KIND_BUDGET, Name: op.BudgetName(b.Scope, target), Budget: b}
}

// lets returns an op that lifts a condition that keeps jobs back, right or wrong.
func (h *havoc) lets(s *havocShard) op.Op {
	switch h.below(4, "lets") {
	case 0:
		return &op.TurnBudgets{Turns: h.turns(s)}
	case 1:
		return &op.ReleaseJobs{Meta: h.meta(), JobIds: [][]byte{h.pick(h.jobs)}, Changes: &op.Changes{Agent: &job.AgentConfig{
			MaxIterations: uint32(h.below(4, "raised iterations")), MaxCostNanoUsd: int64(h.below(9, "raised cost")),
		}}}
	}
	return &op.OpenGate{JobIds: h.gated(s)}
}

func (h *havoc) gated(s *havocShard) (ids [][]byte) {
	for j := range h.here(s) {
		if op.AtGate(j) {
			ids = append(ids, j.Id)
		}
	}
	return ids
}

func (h *havoc) turns(s *havocShard) (turns []*op.Turn) {
	for _, r := range s.store.ResourceIndex().Resources(state.ResourceKind_RESOURCE_KIND_BUDGET) {
		a, err := s.store.Account([16]byte(r.Id))
		if err != nil || a == nil {
			h.t.Fatal("an account", r.Name, a, err)
		}
		for _, now := range h.w.windowsOf(r.Budget) {
			for _, spent := range a.Spent {
				if spent.Window == now.Window && spent.EndNs <= h.w.clockNs {
					turns = append(turns, &op.Turn{Id: r.Id, Window: now.Window, SeenEndNs: spent.EndNs, StartNs: now.StartNs, EndNs: now.EndNs})
				}
			}
		}
	}
	return turns
}

// lookAtReservations requires that the reserved amounts are those of running attempts, on each budget and
// with each provider.
func (h *havoc) lookAtReservations(v *state.Snapshot) {
	money, input, output := map[string]int64{}, map[string]uint64{}, map[string]uint64{}
	for j, err := range v.Jobs() {
		if err != nil {
			h.t.Fatal(err)
		}
		c := j.Lease.GetReservation()
		if c == nil {
			continue
		}
		if j.State != job.Active {
			h.t.Fatalf("job %s is %s and has reserved %v", job.ID(j.Id), j.State.Word(), c)
		}
		for _, id := range c.BudgetIds {
			money[string(id)] += c.ReservedNanoUsd
		}
		input[string(c.ProviderId)] += uint64(c.ReservedInputTokens)
		output[string(c.ProviderId)] += uint64(c.ReservedOutputTokens)
	}
	resources, err := v.ResourceIndex()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, r := range resources.Resources(state.ResourceKind_RESOURCE_KIND_BUDGET) {
		a, err := v.Account([16]byte(r.Id))
		reserved := a.GetReservedNanoUsd()
		if r.Shared() {
			reserved = a.GetSlice().GetReservedNanoUsd()
		}
		if err != nil || a == nil || reserved != money[string(r.Id)] {
			h.t.Fatalf("budget %s has %v, and attempts hold %d (%v)", r.Name, a, money[string(r.Id)], err)
		}
	}
	for _, r := range resources.Resources(state.ResourceKind_RESOURCE_KIND_PROVIDER) {
		t, err := v.Traffic([16]byte(r.Id))
		if err != nil || t.GetReservedInputTokens() != input[string(r.Id)] || t.GetReservedOutputTokens() != output[string(r.Id)] {
			h.t.Fatalf("provider %s has %v, and attempts hold %d and %d (%v)", r.Name, t, input[string(r.Id)], output[string(r.Id)], err)
		}
	}
}

// ungovern removes every resource, on the first shard.
func (h *havoc) ungovern() {
	var ops []op.Op
	for kind := range state.ResourceKind(len(state.ResourceKind_name)) {
		for _, r := range h.shards[0].store.ResourceIndex().Resources(kind) {
			ops = append(ops, &op.DeleteResource{Kind: r.Kind, Name: r.Name, Shards: 2})
		}
	}
	if len(ops) > 0 {
		h.apply(h.shards[0], ops...)
	}
}
