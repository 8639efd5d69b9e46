package op_test

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/pipeline"
)

var budgetSeeds = flag.Int("budget.seeds", 50, "how many histories TestBudgetSeeds plays")

// TestBudgetSeeds plays histories on a real machine and store beside a model that keeps every booking in a
// list. No job begins without room in its budgets, the reserved amounts are those of running attempts, and
// the spent amounts are the reported ones.
func TestBudgetSeeds(t *testing.T) {
	t.Parallel()
	for seed := range *budgetSeeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(uint64(seed), 24))
			playBudgets(t, newWorld(t), r.IntN, 120, seed%25 == 0)
		})
	}
}

// TestBudgets checks the same as TestBudgetSeeds with histories that shrink when they fail.
func TestBudgets(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		below := func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "n") }
		playBudgets(rt, w, below, 1+below(40), below(10) == 0)
	})
}

// playBudgets plays a history of n entries.
func playBudgets(t failer, w *world, below func(int) int, entries int, replica bool) {
	s := &budgetSim{t: t, world: w, below: below, jobs: map[job.ID]*simJob{}, budgets: map[string]*simBudget{}}
	for range 3 {
		s.play(s.putBudget())
	}
	for n := range entries {
		s.clockNs += int64([]time.Duration{0, time.Millisecond, time.Second, 20 * time.Second, 5 * time.Minute, time.Hour, 9 * time.Hour}[below(7)])
		if below(6) == 0 {
			s.nearlyPass()
		}
		s.step()
		s.compare()
		if n%20 == 19 {
			s.check()
		}
		if below(20) == 0 {
			s.restart()
		}
	}
	s.check()
	if replica {
		s.checkReplica()
	}
}

// failer is a test, or a history of one that is drawn.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// budgetSim is a history and its model.
type budgetSim struct {
	*world
	t       failer
	below   func(n int) int
	order   []job.ID
	jobs    map[job.ID]*simJob
	budgets map[string]*simBudget
	keep    map[job.ID]bool // the jobs that a budget kept back before the running entry
}

// simJob is the model's record of a job.
type simJob struct {
	queue, key string
	tagged     bool
	estimate   int64
	cost       int64 // that was reported of it
	token      []byte
	// The rest is about the running attempt: the budgets that have a reservation of it, and its amounts.
	held            []*simBudget
	reserved, spent int64
}

// simBudget is the model's record of a budget.
type simBudget struct {
	name    string
	spec    *state.Budget
	booked  []booking
	windows map[state.Window]*simWindow
	slackNs int64 // of its rolling window: how much longer money may be held against it
}

type simWindow struct {
	startNs, endNs int64
	from           int // the first booking in it
}

// booking is money that was settled or overrun.
type booking struct {
	ns, settled, overrun int64
	vague                bool // it may have been forgotten when the window's length changed
}

// nearlyPass moves the clock to just before a booking leaves a rolling window, because the clock's own steps
// never make a booking as old as the window is long.
func (s *budgetSim) nearlyPass() {
	name := simScopes[s.below(len(simScopes))]
	b := s.budgets[name[0]+"/"+name[1]]
	if b == nil || len(b.booked) == 0 {
		return
	}
	k := b.booked[len(b.booked)-1-s.below(min(5, len(b.booked)))]
	for _, l := range b.spec.Limits {
		if l.Window == state.Window_WINDOW_ROLLING {
			s.clockNs = max(s.clockNs, k.ns+l.LengthMs*int64(time.Millisecond)-1-int64(s.below(3)))
		}
	}
}

// step plays one entry: a few ops whose answers report their effects, or one op whose answer does not.
func (s *budgetSim) step() {
	if s.below(4) == 0 {
		s.play(s.alone())
		s.ended()
		return
	}
	var ops []op.Op
	for range 1 + s.below(3) {
		ops = append(ops, s.any())
	}
	s.keep = s.kept()
	s.play(ops...)
}

// any returns an op whose answer reports its effects.
func (s *budgetSim) any() op.Op {
	switch s.below(12) {
	case 0, 1:
		return s.enqueue()
	case 2, 3, 4:
		return s.fetch([]string{"a", "b"}[s.below(2)], uint32(1+s.below(3)))
	case 5, 6:
		proof, cost := s.report()
		return &op.Ack{Items: []*op.AckItem{{Proof: proof, Usage: cost}}}
	case 7:
		proof, cost := s.report()
		item := &op.FailItem{Proof: proof, Usage: cost}
		if s.below(3) == 0 {
			item.Reason, item.Usage = op.FailReason_FAIL_REASON_UNDELIVERED, nil
		}
		return &op.Fail{Items: []*op.FailItem{item}}
	case 8, 9:
		proof, cost := s.report()
		return &op.Heartbeat{Items: []*op.HeartbeatItem{{Proof: proof, Usage: cost}}}
	case 10:
		return s.putBudget()
	}
	if turns := s.turns(); len(turns) > 0 {
		return &op.TurnBudgets{Turns: turns}
	}
	return s.enqueue()
}

// alone returns an op whose answer does not say which attempts it has ended.
func (s *budgetSim) alone() op.Op {
	if len(s.order) == 0 {
		return s.enqueue()
	}
	var ids [][]byte
	for range 3 {
		ids = append(ids, slices.Clone(s.order[s.below(len(s.order))][:]))
	}
	switch s.below(8) {
	case 7:
		return &op.OpenGate{JobIds: s.allIDs()}
	case 0, 1:
		return &op.Reclaim{JobIds: s.allIDs()}
	case 2:
		return &op.CancelJobs{Meta: &op.Meta{}, JobIds: ids}
	case 3:
		return &op.ReleaseJobs{Meta: &op.Meta{}, JobIds: ids}
	case 4:
		return &op.Promote{JobIds: s.allIDs()}
	case 5:
		for _, name := range []string{"queue/a", "tag/t=x", "key/k"} {
			if s.budgets[name] != nil && s.below(3) == 0 {
				return &op.DeleteResource{Meta: &op.Meta{}, Kind: state.ResourceKind_RESOURCE_KIND_BUDGET, Name: name, Shards: 1}
			}
		}
	}
	return &op.DeleteJobs{Meta: &op.Meta{}, JobIds: ids[:1]}
}

func (s *budgetSim) allIDs() (ids [][]byte) {
	for _, id := range s.order[max(0, len(s.order)-job.MaxDutyItems):] {
		ids = append(ids, slices.Clone(id[:]))
	}
	return ids
}

func (s *budgetSim) enqueue() op.Op {
	o := s.newJobs([]string{"a", "b"}[s.below(2)], 1+s.below(3))
	for i, nj := range o.Jobs {
		j := &simJob{queue: nj.Queue}
		if s.below(2) == 0 {
			nj.Tags, j.tagged = []*job.Pair{{Name: "t", Value: "x"}}, true
		}
		if s.below(3) == 0 {
			nj.FairnessKey, j.key = "k", "k"
		}
		if s.below(3) == 0 {
			j.estimate = int64(1 + s.below(60))
			nj.Opt().CostEstimateNanoUsd = j.estimate
		}
		id := job.ID(o.Meta.Ids[i])
		s.jobs[id], s.order = j, append(s.order, id)
	}
	return o
}

// report returns a worker's report of a job, mostly of a running one.
func (s *budgetSim) report() (*op.LeaseProof, *job.Usage) {
	var running []job.ID
	for _, id := range s.order {
		if s.jobs[id].token != nil {
			running = append(running, id)
		}
	}
	id := job.ID{}
	switch {
	case len(running) > 0 && s.below(10) > 0:
		id = running[s.below(len(running))]
	case len(s.order) > 0:
		id = s.order[s.below(len(s.order))]
	}
	proof := &op.LeaseProof{Id: id[:], WorkerId: "w"}
	if j := s.jobs[id]; j != nil && j.token != nil {
		proof.Token = j.token
	}
	return proof, &job.Usage{CostNanoUsd: int64(s.below(4) * s.below(15))}
}

var simScopes = [][2]string{{"namespace", "default"}, {"queue", "a"}, {"queue", "b"}, {"tag", "t=x"}, {"key", "k"}, {"job", "default"}}

// putBudget returns a new, changed or raised budget.
func (s *budgetSim) putBudget() op.Op {
	at := simScopes[s.below(len(simScopes))]
	b := &state.Budget{ReserveNanoUsd: int64(max(s.below(40)-19, 0)), OnExceed: state.OnExceed(s.below(4)), Alerts: []uint32{50, 100}}
	if s.below(3) > 0 {
		b.OnExceed = state.OnExceed_ON_EXCEED_HOLD
	}
	if s.below(3) == 0 {
		b.RaiseNanoUsd, b.RaiseUntilNs = int64(1+s.below(100)), s.clockNs+int64(s.below(3600))*int64(time.Second)
	}
	if at[0] == "job" || s.below(4) == 0 {
		b.PerJobNanoUsd = int64(20 + s.below(100))
	}
	for window := state.Window_WINDOW_DAY; at[0] != "job" && window <= state.Window_WINDOW_ROLLING; window++ {
		if s.below(2) == 0 || window == state.Window_WINDOW_ROLLING && len(b.Limits) == 0 {
			b.Limits = append(b.Limits, &state.SpendLimit{Window: window, LimitNanoUsd: int64(20 + s.below(300))})
		}
	}
	if n := len(b.Limits); n > 0 && b.Limits[n-1].Window == state.Window_WINDOW_ROLLING {
		b.Limits[n-1].LengthMs = []time.Duration{time.Minute, time.Hour, 24 * time.Hour}[s.below(3)].Milliseconds()
	}
	return s.newBudget(at[0], at[1], b)
}

// play applies an entry and updates the model from the answers.
func (s *budgetSim) play(ops ...op.Op) {
	s.t.Helper()
	for _, o := range ops {
		if err := o.Validate(); err != nil {
			s.t.Fatalf("%T: %v", o, err)
		}
	}
	// Settle ops come first, as in the machine.
	slices.SortStableFunc(ops, func(a, b op.Op) int { return cmp.Compare(after(a), after(b)) })
	for i, result := range s.apply(ops...) {
		if _, refused := result.(error); refused {
			continue
		}
		switch o := ops[i].(type) {
		case *op.Fetch:
			for _, l := range result.(*op.FetchResult).Jobs {
				s.begun(job.ID(l.Id), l.LeaseToken)
			}
		case *op.Ack:
			if result.(*op.AckResult).Items[0].GetCode() == "" {
				s.reported(o.Items[0].Proof, o.Items[0].Usage, true)
			}
		case *op.Fail:
			if result.(*op.FailResult).Items[0].GetRefusal().GetCode() == "" {
				s.reported(o.Items[0].Proof, o.Items[0].Usage, true)
			}
		case *op.Heartbeat:
			if r := result.(*op.HeartbeatResult); r.Items[0].GetCode() == "" {
				s.reported(o.Items[0].Proof, o.Items[0].Usage, false)
				s.toppedUp(s.jobs[job.ID(o.Items[0].Proof.Id)], len(r.OverBudget) > 0)
			}
		case *op.PutResource:
			s.put(o)
		case *op.DeleteResource:
			delete(s.budgets, o.Name)
		case *op.TurnBudgets:
			s.turned(o)
		case *op.OpenGate:
			s.waitForAReason(o)
		}
		if _, fetched := ops[i].(*op.Fetch); fetched && len(ops) == 1 {
			s.keptForAReason()
		}
	}
}

// after orders ops: those with 0 are applied before those with 1.
func after(o op.Op) int {
	if op.KindFor(o).Class == pipeline.ClassSettle {
		return 0
	}
	return 1
}

// ended settles the attempts that an op has ended without saying which.
func (s *budgetSim) ended() {
	for _, id := range s.order {
		m := s.jobs[id]
		if m.token == nil {
			continue
		}
		j, err := s.store.Job(id)
		if err != nil {
			s.t.Fatalf("%v", err)
		}
		if j == nil || j.State != job.Active {
			s.settle(m)
		}
	}
}
