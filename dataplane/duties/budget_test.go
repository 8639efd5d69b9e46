package duties

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// budget creates a budget of the namespace with a limit for each of the windows.
func (s *shard) budget(zone string, windows ...state.Window) *state.Resource {
	s.t.Helper()
	b := &state.Budget{Scope: state.BudgetScope_BUDGET_SCOPE_NAMESPACE, Target: op.BudgetTarget, Timezone: zone, ReserveNanoUsd: 1}
	for _, w := range windows {
		b.Limits = append(b.Limits, &state.SpendLimit{Window: w, LimitNanoUsd: 100, LengthMs: time.Hour.Milliseconds()})
	}
	return s.putBudget(b)
}

// putBudget creates a budget of the namespace.
func (s *shard) putBudget(b *state.Budget) *state.Resource {
	s.t.Helper()
	seen, err := BudgetWindows(b, time.Now().UnixNano())
	if err != nil {
		s.t.Fatal(err)
	}
	s.ids++
	id := job.NewID(time.Now().UnixMilli(), "", job.Entropy{8: byte(s.ids)})
	return s.mustApply(&op.PutResource{
		Meta: &op.Meta{Ids: [][]byte{id[:]}}, Windows: seen,
		Resource: &state.Resource{Kind: state.ResourceKind_RESOURCE_KIND_BUDGET, Name: "namespace/default", Shards: 1, Budget: b},
	}).(*op.PutResourceResult).Resource
}

// windows returns the budget's windows as stored in its account.
func (s *shard) windows(r *state.Resource) (all []*state.Spent) {
	s.t.Helper()
	a, err := s.store.Account([16]byte(r.Id))
	if err != nil {
		s.t.Fatal(err)
	}
	return a.GetSpent()
}

// The duty turns a window when it is over in the budget's zone, and proposes nothing in between.
func TestBudgetsTurn(t *testing.T) {
	inShard(t, 1<<40, func(s *shard) {
		zone, err := Zone("Europe/Berlin")
		if err != nil {
			t.Fatal(err)
		}
		r := s.budget("Europe/Berlin", state.Window_WINDOW_DAY, state.Window_WINDOW_WEEK, state.Window_WINDOW_MONTH, state.Window_WINDOW_ROLLING)
		before := s.proposals()
		const days = 2
		for range days {
			next := time.Unix(0, s.windows(r)[0].EndNs)
			if h, m, sec := next.In(zone).Clock(); h != 0 || m != 0 || sec != 0 {
				t.Fatalf("a day ends at %s", next.In(zone))
			}
			time.Sleep(time.Until(next) + time.Second)
			synctest.Wait()
			now := time.Now().UnixNano()
			for _, w := range s.windows(r)[:3] {
				if now < w.StartNs || now >= w.EndNs {
					t.Fatalf("at %s window %d is from %s to %s", time.Now(), w.Window, time.Unix(0, w.StartNs), time.Unix(0, w.EndNs))
				}
			}
		}
		if n := s.proposals() - before; n != days {
			t.Errorf("%d proposals in %d days", n, days)
		}
	})
}

// A window that ended while nobody led is turned by the next leader, once.
func TestBudgetsTurnLate(t *testing.T) {
	inShard(t, 1<<40, func(s *shard) {
		r := s.budget("UTC", state.Window_WINDOW_DAY)
		time.Sleep(time.Until(time.Unix(0, s.windows(r)[0].EndNs)) - time.Second)
		s.asleep(time.Minute)
		now := time.Now().UnixNano()
		if w := s.windows(r)[0]; now < w.StartNs || now >= w.EndNs {
			t.Errorf("the window is from %s to %s", time.Unix(0, w.StartNs), time.Unix(0, w.EndNs))
		}
		s.mustApply(&op.DeleteResource{Meta: &op.Meta{}, Kind: r.Kind, Name: r.Name, Shards: 1})
		before := s.proposals()
		time.Sleep(48 * time.Hour)
		synctest.Wait()
		if n := s.proposals() - before; n != 0 {
			t.Errorf("%d proposals for a budget that is gone", n)
		}
	})
}

// A budget whose time zone this binary does not know keeps its window, whose spending counts, until it is
// declared with a known zone.
func TestABudgetWithAStrangeZone(t *testing.T) {
	inShard(t, 1<<40, func(s *shard) {
		r := s.budget("UTC", state.Window_WINDOW_DAY)
		strange := r.Budget
		strange.Timezone = "Mars/Olympus"
		end := s.windows(r)[0].EndNs
		s.mustApply(&op.PutResource{Meta: &op.Meta{Ids: [][]byte{r.Id}}, Windows: s.windows(r), Resource: &state.Resource{
			Kind: r.Kind, Name: r.Name, Shards: 1, Budget: strange,
		}})
		time.Sleep(time.Until(time.Unix(0, end)) + time.Hour)
		synctest.Wait()
		if got := s.windows(r)[0].EndNs; got != end {
			t.Errorf("the window ends at %s", time.Unix(0, got))
		}
		r = s.budget("UTC", state.Window_WINDOW_DAY)
		if got := s.windows(r)[0].EndNs; got <= end {
			t.Error("the window of a zone that is known is the old one")
		}
	})
}

// Even job.MaxBudgets - 1 budgets in unknown time zones do not keep a budget in a known zone from turning.
func TestBudgetsWithStrangeZonesHideNone(t *testing.T) {
	inShard(t, 1<<40, func(s *shard) {
		began := time.Now()
		var last *state.Resource
		for i := range job.MaxBudgets {
			b := &state.Budget{
				Scope: state.BudgetScope_BUDGET_SCOPE_TAG, Target: fmt.Sprintf("t=%d", i), Timezone: "Mars/Olympus", ReserveNanoUsd: 1,
				Limits: []*state.SpendLimit{{Window: state.Window_WINDOW_DAY, LimitNanoUsd: 100}},
			}
			if i == job.MaxBudgets-1 {
				b.Timezone = "UTC"
			}
			id := job.NewID(time.Now().UnixMilli(), "", job.Entropy{0: byte(i >> 8), 1: byte(i)})
			last = s.mustApply(&op.PutResource{
				Meta: &op.Meta{Ids: [][]byte{id[:]}}, Windows: []*state.Spent{{Window: state.Window_WINDOW_DAY, StartNs: began.UnixNano(), EndNs: began.Add(time.Hour).UnixNano()}},
				Resource: &state.Resource{Kind: state.ResourceKind_RESOURCE_KIND_BUDGET, Name: "tag/" + b.Target, Shards: 1, Budget: b},
			}).(*op.PutResourceResult).Resource
		}
		time.Sleep(time.Hour + 3*stuckBudgets)
		synctest.Wait()
		if now := time.Now().UnixNano(); s.windows(last)[0].EndNs <= now {
			t.Error("the window of the budget whose zone is known is over still")
		}
	})
}

// A shard returns the unused part of a shared budget after job.SliceIdle, in one op, and then proposes
// nothing more.
func TestSlicesAreTold(t *testing.T) {
	inShard(t, 1<<40, func(s *shard) {
		r := s.sharedBudget()
		account := func() *state.Account {
			a, err := s.store.Account([16]byte(r.Id))
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		s.mustApply(&op.ReturnBudget{Id: r.Id, Shard: 0, Ask: 1, WantNanoUsd: 5})
		before := s.proposals()
		if a := account(); a.ReservedNanoUsd != 25 {
			t.Fatalf("granted %v", a)
		}
		time.Sleep(job.SliceIdle - time.Millisecond)
		synctest.Wait()
		if n := s.proposals() - before; n != 0 || account().ReservedNanoUsd == 0 {
			t.Errorf("%d proposals, granted %v", n, account())
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if n := s.proposals() - before; n != 1 || account().ReservedNanoUsd != 0 {
			t.Errorf("%d proposals, granted %v", n, account())
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := s.proposals() - before; n != 1 {
			t.Errorf("%d proposals of a shard that has nothing to tell", n)
		}
	})
}

// sharedBudget creates a budget that two shards share.
func (s *shard) sharedBudget() *state.Resource {
	s.t.Helper()
	s.ids++
	id := job.NewID(time.Now().UnixMilli(), "", job.Entropy{8: byte(s.ids)})
	return s.mustApply(&op.PutResource{
		Meta: &op.Meta{Ids: [][]byte{id[:]}},
		Resource: &state.Resource{Kind: state.ResourceKind_RESOURCE_KIND_BUDGET, Name: "namespace/default", Shards: 2, Budget: &state.Budget{
			Scope: state.BudgetScope_BUDGET_SCOPE_NAMESPACE, Target: op.BudgetTarget, Timezone: "UTC", ReserveNanoUsd: 1,
			Limits: []*state.SpendLimit{{Window: state.Window_WINDOW_ROLLING, LimitNanoUsd: 100, LengthMs: time.Hour.Milliseconds()}},
		}},
	}).(*op.PutResourceResult).Resource
}
