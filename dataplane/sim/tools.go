package sim

import (
	"fmt"
	"slices"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// callTools creates the jobs that an iteration calls as its tools, and makes the next iteration wait for all
// of them.
func (m *model) callTools(j *modelJob, item *op.AckItem) {
	it := j.agent.kept[len(j.agent.kept)-1]
	waiter, here := j.id, m.number
	for _, c := range item.GetToolCalls() {
		id := job.ID(c.GetId())
		it.ToolCalls = append(it.ToolCalls, &job.ToolCall{JobId: c.GetId(), Name: c.GetName(), Queue: c.GetJob().GetQueue(), Shard: c.GetShard()})
		if len(item.GetProof().GetToken()) == 0 {
			m.ledger.byRuns[id] = true // an ack without a token may call the tool again
		}
		m.createJob(c.GetShard(), id, c.GetJob())
		m.send(c.GetShard(), traveller{about: &waiter, arrive: func(to *model) { to.watch(id, waiter, here) }})
	}
	j.blocked = len(item.GetToolCalls())
}

// waitsFor reports whether a job with iterations waits for another, because its last iteration called it as a
// tool.
func (j *modelJob) waitsFor(id job.ID) bool {
	last := j.agent.record(j.agent.ended)
	return slices.ContainsFunc(last.GetToolCalls(), func(c *job.ToolCall) bool { return job.ID(c.GetJobId()) == id })
}

// willTell reports whether a job will notify another when it settles.
func (m *model) willTell(id, waiter job.ID) bool {
	j, w := m.jobs[id], m.waiters[id]
	if j == nil || w == nil || !j.live() {
		return false
	}
	_, waits := w.shards[waiter]
	return waits
}

// inspectTools checks that as many live tools will notify a waiting agent's job as it waits for.
func (s *simulation) inspectTools(j *job.Job) error {
	if j.GetDetail().GetIteration() == 0 || j.GetBlockedBy() == 0 {
		return nil
	}
	id, live := job.ID(j.GetId()), uint32(0)
	for _, sh := range s.shards {
		parent := sh.model.jobs[id]
		if parent == nil {
			continue
		}
		for _, c := range parent.agent.record(parent.agent.ended).GetToolCalls() {
			tool := job.ID(c.GetJobId())
			if slices.ContainsFunc(s.shards, func(of *shard) bool { return of.model.willTell(tool, id) }) {
				live++
			}
		}
	}
	if live != j.GetBlockedBy() {
		return fmt.Errorf("waits for %d tools, and %d of those it called for will tell it", j.GetBlockedBy(), live)
	}
	return nil
}

// tools draws the tool calls of a job's iteration.
func (w *workload) tools(parent []byte) (calls []*op.ToolCall) {
	for range 1 + w.rng.IntN(3) {
		to := w.anyShard()
		n := w.newJob()
		n.Queue, n.DependsOn, n.Chain = to.work.jobQueue(), nil, nil
		o := n.Opt()
		o.UniqueKey, o.UniquePeriodMs, o.UniqueWholePeriod, o.DebounceKey, o.DebounceMs = "", 0, false, "", 0
		o.DependencyPolicy, o.ParentId = job.DependencyFail, parent
		id := w.id(n.Queue)
		calls = append(calls, &op.ToolCall{Name: fmt.Sprintf("tool-%d", len(calls)), Shard: to.number, Id: id[:], Job: n})
	}
	return calls
}
