package op_test

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// The model of shared budgets: one list of all that was spent, whichever shard it was on.

// sliceJob is the model's record of a job.
type sliceJob struct {
	shard    uint32
	tagged   bool
	estimate int64
	token    []byte // of the attempt that runs
	held     []*sliceBudget
	reserved int64
	spent    int64
}

// sliceBudget is the model's record of a budget.
type sliceBudget struct {
	name    string
	spec    *state.Budget // as it was declared last
	windows map[state.Window]*sliceWindow
	bounded bool // it never let attempts begin without asking
	booked  []booking
}

// sliceWindow is a limit of a budget that it has always had.
type sliceWindow struct {
	most int64 // the highest that it was, because grants are not taken away
	from int   // for a calendar window, the first booking after the first shard has turned it
}

var sliceScopes = [][2]string{{"namespace", "default"}, {"tag", "t=x"}}

// declare declares a budget, or changes one.
func (s *sliceSim) declare() {
	s.t.Helper()
	for _, at := range sliceScopes {
		if s.budgets[at[0]+"/"+at[1]] != nil && s.rng.IntN(2) == 0 {
			continue
		}
		b := &state.Budget{ReserveNanoUsd: int64(max(s.rng.IntN(40)-19, 0)), OnExceed: state.OnExceed_ON_EXCEED_THROTTLE, Alerts: []uint32{50, 100}, Timezone: "UTC"}
		if s.rng.IntN(3) == 0 {
			b.OnExceed = state.OnExceed_ON_EXCEED_HOLD
		}
		if !s.steady && s.rng.IntN(4) == 0 {
			b.OnExceed = state.OnExceed_ON_EXCEED_ALERT_ONLY
		}
		if !s.steady && s.rng.IntN(3) == 0 {
			b.RaiseNanoUsd, b.RaiseUntilNs = int64(1+s.rng.IntN(100)), s.clockNs+int64(s.rng.IntN(3600))*int64(time.Second)
		}
		for _, window := range []state.Window{state.Window_WINDOW_DAY, state.Window_WINDOW_WEEK, state.Window_WINDOW_ROLLING} {
			if s.rng.IntN(2) == 0 || window == state.Window_WINDOW_ROLLING && len(b.Limits) == 0 {
				b.Limits = append(b.Limits, &state.SpendLimit{Window: window, LimitNanoUsd: int64(60 + s.rng.IntN(300))})
			}
		}
		if l := b.Limits[len(b.Limits)-1]; l.Window == state.Window_WINDOW_ROLLING {
			l.LengthMs = []time.Duration{time.Minute, time.Hour, 24 * time.Hour}[s.rng.IntN(3)].Milliseconds()
		}
		home := s.shards[0]
		home.clockNs = s.clockNs
		o := home.newBudget(at[0], at[1], b)
		o.Resource.Shards = uint32(len(s.shards))
		s.apply(home, o)
		s.declared(o.Resource.Name, b)
	}
}

func (s *sliceSim) declared(name string, spec *state.Budget) {
	b := s.budgets[name]
	if b == nil {
		b = &sliceBudget{name: name, bounded: true, windows: map[state.Window]*sliceWindow{}}
		s.budgets[name] = b
		for _, l := range spec.Limits {
			b.windows[l.Window] = &sliceWindow{}
		}
	}
	b.spec = spec
	b.bounded = b.bounded && spec.OnExceed != state.OnExceed_ON_EXCEED_ALERT_ONLY
	has := map[state.Window]bool{}
	for _, l := range spec.Limits {
		has[l.Window] = true
		if w := b.windows[l.Window]; w != nil {
			w.most = max(w.most, l.LimitNanoUsd+spec.RaiseNanoUsd)
		}
	}
	for window := range b.windows {
		if !has[window] {
			delete(b.windows, window)
		}
	}
}

// settledIn returns the settled amount of a budget in a window, and the overrun.
func (s *sliceSim) settledIn(b *sliceBudget, l *state.SpendLimit) (settled, overrun int64) {
	from, afterNs := b.windows[l.Window].from, int64(0)
	if l.Window == state.Window_WINDOW_ROLLING {
		from, afterNs = 0, s.clockNs-l.LengthMs*int64(time.Millisecond)
	}
	for _, k := range b.booked[from:] {
		if k.ns > afterNs {
			settled, overrun = settled+k.settled, overrun+k.overrun
		}
	}
	return settled, overrun
}

// enqueue makes jobs on a shard.
func (s *sliceSim) enqueue(sh *sliceShard) {
	s.t.Helper()
	sh.clockNs = s.clockNs
	o := sh.newJobs("q", 1+s.rng.IntN(3))
	for i, nj := range o.Jobs {
		j := &sliceJob{shard: sh.number}
		if s.rng.IntN(2) == 0 {
			nj.Tags, j.tagged = []*job.Pair{{Name: "t", Value: "x"}}, true
		}
		if s.rng.IntN(2) == 0 {
			j.estimate = int64(1 + s.rng.IntN(60))
			nj.Opt().CostEstimateNanoUsd = j.estimate
		}
		id := job.ID(o.Meta.Ids[i])
		s.jobs[id], s.order = j, append(s.order, id)
	}
	s.apply(sh, o)
}

// fetch begins attempts on a shard, for each of which there must be money.
func (s *sliceSim) fetch(sh *sliceShard, count uint32) {
	s.t.Helper()
	sh.clockNs = s.clockNs
	for _, l := range s.apply(sh, sh.world.fetch("q", min(count, job.MaxFetchJobs))).(*op.FetchResult).Jobs {
		id := job.ID(l.Id)
		m, j := s.jobs[id], s.job(sh, id)
		m.token, m.spent = l.LeaseToken, 0
		m.held = nil
		c := j.GetLease().GetReservation()
		for _, b := range c.GetBudgetIds() {
			m.held = append(m.held, s.budgets[sh.kept.ResourceIndex().ResourceByID([16]byte(b)).Name])
		}
		m.reserved = c.GetReservedNanoUsd()
	}
	for _, b := range s.budgets {
		s.mustFit(b)
	}
}

// mustFit fails if the amounts reserved on all shards and settled in a window exceed the window's limit.
func (s *sliceSim) mustFit(b *sliceBudget) {
	s.t.Helper()
	if !b.bounded {
		return
	}
	for _, l := range b.spec.Limits {
		w := b.windows[l.Window]
		if w == nil {
			continue
		}
		settled, _ := s.settledIn(b, l)
		if reserved := s.reservedOn(b); settled+reserved > w.most {
			s.t.Fatalf("%s: settled %d + reserved %d > %d in window %d", b.name, settled, reserved, w.most, l.Window)
		}
	}
}

func (s *sliceSim) reservedOn(b *sliceBudget) (sum int64) {
	for _, j := range s.jobs {
		for _, held := range j.held {
			if held == b {
				sum += j.reserved
			}
		}
	}
	return sum
}

// running returns the active jobs of a shard.
func (s *sliceSim) running(sh *sliceShard) (ids []job.ID) {
	for _, id := range s.order {
		if j := s.jobs[id]; j.token != nil && j.shard == sh.number {
			ids = append(ids, id)
		}
	}
	return ids
}

// report lets a worker report the cost of its job and finish it.
func (s *sliceSim) report(sh *sliceShard) {
	s.t.Helper()
	running := s.running(sh)
	if len(running) == 0 {
		return
	}
	id := running[s.rng.IntN(len(running))]
	m, cost := s.jobs[id], &job.Usage{CostNanoUsd: int64(s.rng.IntN(4) * s.rng.IntN(15))}
	proof := &op.LeaseProof{Id: id[:], Token: m.token}
	switch s.rng.IntN(4) {
	case 0:
		if s.apply(sh, &op.Fail{Items: []*op.FailItem{{Proof: proof, Usage: cost}}}).(*op.FailResult).Items[0].GetRefusal().GetCode() == "" {
			s.ends(m, cost.CostNanoUsd)
		}
	case 1:
		if s.apply(sh, &op.Heartbeat{Items: []*op.HeartbeatItem{{Proof: proof, Usage: cost}}}).(*op.HeartbeatResult).Items[0].GetCode() == "" {
			s.beats(sh, id, cost.CostNanoUsd)
		}
	default:
		if s.apply(sh, &op.Ack{Items: []*op.AckItem{{Proof: proof, Usage: cost}}}).(*op.AckResult).Items[0].GetCode() == "" {
			s.ends(m, cost.CostNanoUsd)
		}
	}
}

// recordCost records an amount spent on budgets.
func (s *sliceSim) recordCost(all []*sliceBudget, settled, overrun int64) {
	for _, b := range all {
		b.booked = append(b.booked, booking{ns: s.clockNs, settled: settled, overrun: overrun})
	}
}

// beats records a report of a continuing attempt. The shard tells how much of it was reserved; the rest is
// overrun.
func (s *sliceSim) beats(sh *sliceShard, id job.ID, cost int64) {
	m := s.jobs[id]
	s.unheld(sh, id, cost)
	if len(m.held) == 0 {
		return
	}
	c := s.job(sh, id).GetLease().GetReservation()
	s.recordCost(m.held, 0, m.spent+cost-c.GetSpentNanoUsd())
	m.spent, m.reserved = c.GetSpentNanoUsd(), c.GetReservedNanoUsd()
}

// unheld books the cost of an attempt on budgets that were declared after it began.
func (s *sliceSim) unheld(sh *sliceShard, id job.ID, cost int64) {
	m := s.jobs[id]
	for _, b := range s.budgets {
		r := sh.kept.ResourceIndex().Resource(state.ResourceKind_RESOURCE_KIND_BUDGET, b.name)
		holds := false
		for _, h := range m.held {
			holds = holds || h == b
		}
		if r != nil && !holds && (m.tagged || b.name == "namespace/default") {
			s.recordCost([]*sliceBudget{b}, 0, cost)
		}
	}
}

// ends notes the end of an attempt.
func (s *sliceSim) ends(m *sliceJob, cost int64) {
	for id, j := range s.jobs {
		if j == m {
			s.unheld(s.shards[m.shard], id, cost)
		}
	}
	m.spent += cost
	s.recordCost(m.held, min(m.spent, m.reserved), max(m.spent-m.reserved, 0))
	m.token, m.held, m.reserved, m.spent = nil, nil, 0, 0
}

// finish ends every attempt of a shard.
func (s *sliceSim) finish(sh *sliceShard) {
	s.t.Helper()
	for _, id := range s.running(sh) {
		m, cost := s.jobs[id], &job.Usage{CostNanoUsd: 1}
		if s.apply(sh, &op.Ack{Items: []*op.AckItem{{Proof: &op.LeaseProof{Id: id[:], Token: m.token}, Usage: cost}}}).(*op.AckResult).Items[0].GetCode() == "" {
			s.ends(m, 1)
		}
	}
	s.reclaim(sh)
}

// reclaim ends the attempts of a shard whose leases have expired, and makes their jobs pending again.
func (s *sliceSim) reclaim(sh *sliceShard) {
	s.t.Helper()
	o := &op.Reclaim{}
	for _, id := range s.order {
		if s.jobs[id].shard == sh.number && len(o.JobIds) < job.MaxDutyItems {
			o.JobIds = append(o.JobIds, id[:])
		}
	}
	if len(o.JobIds) == 0 {
		return
	}
	s.apply(sh, o)
	s.apply(sh, &op.Promote{JobIds: o.JobIds})
	for _, id := range s.running(sh) {
		if s.job(sh, id).GetState() != job.Active {
			s.ends(s.jobs[id], 0)
		}
	}
}

func (s *sliceSim) job(sh *sliceShard, id job.ID) *job.Job {
	s.t.Helper()
	j, err := sh.kept.Job(id)
	if err != nil {
		s.t.Fatal(err)
	}
	return j
}

// account returns a shard's account of a budget, or nil if the shard does not know the budget.
func (s *sliceSim) account(sh *sliceShard, name string) *state.Account {
	s.t.Helper()
	r := sh.kept.ResourceIndex().Resource(state.ResourceKind_RESOURCE_KIND_BUDGET, name)
	if r == nil {
		return nil
	}
	a, err := sh.kept.Account([16]byte(r.Id))
	if err != nil || a == nil {
		s.t.Fatalf("shard %d has no account of %s: %v", sh.number, name, err)
	}
	return a
}

// conserved fails if the first shard's grants differ from the money that other shards have or that is on its
// way, or if a store contradicts itself.
func (s *sliceSim) conserved() {
	s.t.Helper()
	for name, b := range s.budgets {
		home := s.account(s.shards[0], name)
		reserved := int64(0)
		for _, sh := range s.shards {
			a := s.account(sh, name)
			slice, share := a.GetSlice(), &state.Share{}
			for _, x := range home.Shares {
				if x.Shard == sh.number {
					share = x
				}
			}
			away := s.underway(s.shards[0], sh, home.Id) + s.underway(sh, s.shards[0], home.Id)
			if got := slice.GetGrantedNanoUsd() + slice.GetGoneNanoUsd() + away; got != share.GrantedNanoUsd {
				s.t.Fatalf("%s: shard %d has %d, %d is untold and %d on its way; the first shard has granted %d", name, sh.number, slice.GetGrantedNanoUsd(), slice.GetGoneNanoUsd(), away, share.GrantedNanoUsd)
			}
			reserved += slice.GetReservedNanoUsd()
		}
		if want := s.reservedOn(b); reserved != want {
			s.t.Fatalf("%s: %d is reserved, attempts hold %d", name, reserved, want)
		}
	}
	for _, sh := range s.shards {
		snapshot := sh.kept.Snapshot()
		if err := snapshot.Check(); err != nil {
			s.t.Fatalf("shard %d: %v", sh.number, err)
		}
		if err := snapshot.Close(); err != nil {
			s.t.Fatal(err)
		}
	}
}

// underway returns the money of a budget that one shard has sent to another and that has not arrived.
func (s *sliceSim) underway(from, to *sliceShard, id []byte) (sum int64) {
	s.t.Helper()
	if from == to {
		return 0
	}
	rows, err := from.kept.Outgoing(to.number, to.heard[from.number]+1, 1<<20, 1<<30)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, row := range rows {
		if row.Seq <= to.heard[from.number] {
			continue
		}
		back, grant := &op.ReturnBudget{}, &op.GrantBudget{}
		switch row.Op.Number {
		case uint32(op.KindFor(back).Number):
			if err := proto.Unmarshal(row.Op.Op, back); err != nil {
				s.t.Fatal(err)
			}
			if string(back.Id) == string(id) {
				sum += back.GoneNanoUsd
			}
		case uint32(op.KindFor(grant).Number):
			if err := proto.Unmarshal(row.Op.Op, grant); err != nil {
				s.t.Fatal(err)
			}
			if string(grant.Id) == string(id) {
				sum += grant.AmountNanoUsd
			}
		}
	}
	return sum
}

// quiet reports whether no money is reserved or granted and every shard has reported what it spent.
func (s *sliceSim) quiet() bool {
	for name := range s.budgets {
		for _, sh := range s.shards {
			a := s.account(sh, name)
			if a == nil || a.ReservedNanoUsd != 0 {
				return false
			}
			if a.Slice.GrantedNanoUsd != 0 || a.Slice.UnreportedNs != 0 {
				return false
			}
		}
	}
	return true
}

// settled fails unless the first shard has received all spent amounts. Its windows hold at least the amounts
// spent in them, because it books a report when it arrives.
func (s *sliceSim) settled() {
	s.t.Helper()
	for name, b := range s.budgets {
		a := s.account(s.shards[0], name)
		for i, l := range b.spec.Limits {
			if b.windows[l.Window] == nil {
				continue
			}
			settled, overrun := s.settledIn(b, l)
			if got := int64(a.Spent[i].Sums(s.clockNs).Spent()); s.steady && got < settled+overrun {
				s.t.Fatalf("%s: %d was spent in window %d, the first shard knows of %d", name, settled+overrun, l.Window, got)
			}
		}
	}
}
