package sim

import (
	"slices"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// modelWaiters are the jobs that wait for one job.
type modelWaiters struct {
	shards    map[job.ID]uint32 // the shard of each waiting job
	settled   job.State         // unspecified: not yet, or the job is not on this shard
	settledNs int64             // time from which the waiters are to be notified; 0 = not yet
}

func (w *modelWaiters) settle(how job.State, nowNs int64) { w.settled, w.settledNs = how, nowNs }

// watch makes a job notify another when it settles.
func (m *model) watch(id, waiter job.ID, shard uint32) {
	w := m.waiters[id]
	if w == nil {
		w = &modelWaiters{shards: map[job.ID]uint32{}}
		m.waiters[id] = w
	}
	if _, known := w.shards[waiter]; !known {
		w.shards[waiter] = shard
	}
	m.observe(id, w)
}

// observe updates the record of a job that others wait for. Once the job has settled or is not on this shard,
// the waiters are to be notified.
func (m *model) observe(id job.ID, w *modelWaiters) {
	if w.settled != job.State_STATE_UNSPECIFIED {
		return
	}
	switch j := m.jobs[id]; {
	case j == nil:
		w.settle(job.State_STATE_UNSPECIFIED, m.clockNs)
	case j.live():
		j.awaited, w.settledNs = true, 0
	default:
		w.settle(j.state, m.clockNs)
	}
}

// met notifies a job that one it waits for has settled.
func (m *model) met(waiter, id job.ID, how job.State) {
	j := m.jobs[waiter]
	switch {
	case j == nil || j.blocked == 0 || j.state != job.Scheduled && j.state != job.Held:
	case j.agent.ended > 0 && !j.waitsFor(id): // it no longer waits for that one
	case j.agent.ended > 0 || how == job.Completed || j.policy == job.DependencyPolicy_DEPENDENCY_POLICY_IGNORE:
		if j.blocked--; j.blocked == 0 && j.state == job.Scheduled && j.dueNs <= m.clockNs {
			j.state = job.Pending
			m.put(j)
		}
	case j.policy == job.DependencyPolicy_DEPENDENCY_POLICY_HOLD && j.state == job.Held:
	case j.policy == job.DependencyPolicy_DEPENDENCY_POLICY_HOLD:
		m.keep(j, job.Hold_HOLD_DEPENDENCY, id.String())
	default:
		why := "depends on " + id.String() + ", which "
		if how == job.State_STATE_UNSPECIFIED {
			m.bury(j, why+"does not exist")
		} else {
			m.bury(j, why+"is "+how.Word())
		}
	}
}

func (m *model) resolveDependents(o *op.ResolveDependents) outcome {
	result := &op.ResolveDependentsResult{}
	for _, b := range o.GetJobIds() {
		id := job.ID(b)
		w := m.waiters[id]
		if w == nil {
			continue
		}
		m.observe(id, w)
		if w.settledNs == 0 {
			continue
		}
		for _, waiter := range sortedIDs(w.shards) {
			m.tell(id, waiter, w)
			result.Notified++
		}
		delete(m.waiters, id)
	}
	return outcome{result: result}
}

// tell notifies one of the waiting jobs, or forwards the question to the shard to which the awaited job has
// gone.
func (m *model) tell(id, waiter job.ID, w *modelWaiters) {
	shard, how := w.shards[waiter], w.settled
	if f, left := m.forwards[id]; left && how == job.State_STATE_UNSPECIFIED {
		m.send(f.shard, traveller{about: &waiter, arrive: func(to *model) { to.watch(id, waiter, shard) }})
		return
	}
	m.send(shard, traveller{about: &waiter, arrive: func(to *model) { to.met(waiter, id, how) }})
}

func sortedIDs[V any](of map[job.ID]V) []job.ID {
	ids := make([]job.ID, 0, len(of))
	for id := range of {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b job.ID) int { return slices.Compare(a[:], b[:]) })
	return ids
}

func (w *workload) resolveDependents() op.Op {
	ids := sortedIDs(w.m.waiters)
	if len(ids) == 0 || w.chance(15) {
		ids = append(ids, w.id("nowhere"))
	}
	w.rng.Shuffle(len(ids), func(i, k int) { ids[i], ids[k] = ids[k], ids[i] })
	return &op.ResolveDependents{Meta: duty(), JobIds: idBytes(ids[:min(len(ids), 1+w.rng.IntN(4))])}
}

// dependencies draws jobs to wait for. If a drawn job of this shard does not exist, the shard refuses the
// enqueue; another shard reports that later.
func (w *workload) dependencies() (all []*op.Dependency) {
	seen := map[job.ID]bool{}
	for range 1 + w.rng.IntN(3) {
		of := w.anyShard()
		id := w.id("nowhere")
		if jobs := byNumber(of.model); len(jobs) > 0 && !w.chance(20) {
			id = pick(w, jobs).id
		}
		if !seen[id] {
			seen[id] = true
			all = append(all, &op.Dependency{JobId: id[:], Shard: of.number})
		}
	}
	return all
}
