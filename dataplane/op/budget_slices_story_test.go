package op_test

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// The commands of budgets that shards share. A story's world is the first shard: it keeps
// them, and has a slice like the others.
func init() {
	builders["return-budget"] = func(s *story, items []item) op.Op {
		i := items[0]
		number := func(name string) int64 {
			if text := i.text(name, ""); len(text) > 0 && text[0] == '-' {
				return -int64((item{settings: map[string]string{name: text[1:]}}).number(s.t, name, 0))
			}
			return int64(i.number(s.t, name, 0))
		}
		return &op.ReturnBudget{
			Id: s.budgetID(i), Shard: uint32(i.number(s.t, "shard", 1)), SettledNanoUsd: number("settled"), OverrunNanoUsd: number("overrun"),
			GoneNanoUsd: number("gone"), Ask: i.number(s.t, "ask", 0), WantNanoUsd: number("want"), Recall: i.number(s.t, "recall", 0),
		}
	}
	builders["grant-budget"] = func(s *story, items []item) op.Op {
		i := items[0]
		o := &op.GrantBudget{Id: s.budgetID(i), Ask: i.number(s.t, "ask", 0), AmountNanoUsd: int64(i.number(s.t, "amount", 0)), Recall: i.number(s.t, "recall", 0)}
		if i.says("denied") {
			o.Denial = &state.Denial{AmountNanoUsd: int64(i.number(s.t, "denied", 0)), Window: state.Window_WINDOW_DAY}
		}
		return o
	}
	builders["balance-budgets"] = func(s *story, items []item) op.Op {
		o := &op.BalanceBudgets{}
		for _, word := range items[0].words {
			o.Ids = append(o.Ids, s.budgetID(item{words: []string{word}}))
		}
		return o
	}
	moreValid = append(moreValid,
		func(w *world) op.Op { id := w.newID(""); return &op.ReturnBudget{Id: id[:], Shard: 1} },
		func(w *world) op.Op { id := w.newID(""); return &op.GrantBudget{Id: id[:], AmountNanoUsd: 1} },
		func(w *world) op.Op { id := w.newID(""); return &op.BalanceBudgets{Ids: [][]byte{id[:]}} },
	)
	prepare["balance-budgets"] = func(w *world) op.Op {
		put := w.newBudget("namespace", "default", &state.Budget{
			Limits: []*state.SpendLimit{{Window: state.Window_WINDOW_DAY, LimitNanoUsd: 100}}, ReserveNanoUsd: 10,
		})
		put.Resource.Shards = 2
		r := one[*op.PutResourceResult](w, put).Resource
		leased := w.leased("q", 1)
		w.apply(ack(leased...))
		w.clockNs += int64(job.SliceIdle)
		return &op.BalanceBudgets{Ids: [][]byte{r.Id}}
	}
}

// budgetID returns the id of the budget that an item names, or zeros.
func (s *story) budgetID(i item) []byte {
	if r := s.store.ResourceIndex().Resource(state.ResourceKind_RESOURCE_KIND_BUDGET, i.words[0]); r != nil {
		return r.Id
	}
	return make([]byte, 16)
}

// printSlices prints the shares of a shared budget by shard.
func (s *story) printSlices(a *state.Account) {
	for _, x := range a.Shares {
		fmt.Fprintf(&s.out, "  shard %d: granted %d", x.Shard, x.GrantedNanoUsd)
		if x.WantNanoUsd != 0 {
			fmt.Fprintf(&s.out, ", lacks %d (ask %d, turn %d, denied %t)", x.WantNanoUsd, x.Ask, x.Turn, x.Denied)
		}
		if x.Recall != 0 {
			fmt.Fprintf(&s.out, ", recall %d (returned %t)", x.Recall, x.Returned)
		}
		fmt.Fprintln(&s.out)
	}
	if x := a.Slice; x != nil {
		fmt.Fprintf(&s.out, "  own slice: granted %d, reserved %d, untold settled %d overrun %d gone %d", x.GrantedNanoUsd, x.ReservedNanoUsd, x.SettledNanoUsd, x.OverrunNanoUsd, x.GoneNanoUsd)
		if x.WantNanoUsd != 0 {
			fmt.Fprintf(&s.out, "; wants %d (ask %d, denial %d)", x.WantNanoUsd, x.Ask, x.Denial.GetAmountNanoUsd())
		}
		if at := x.ReportNs(); at != 0 {
			fmt.Fprintf(&s.out, "; tells at %s", s.moment(at))
		}
		fmt.Fprintln(&s.out)
	}
	if a.ServeNs != 0 {
		fmt.Fprintf(&s.out, "  serves at %s\n", s.moment(a.ServeNs))
	}
}
