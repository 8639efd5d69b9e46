package sim

import (
	"errors"
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// laneName is a fairness key of a queue.
type laneName struct{ queue, key string }

// keyed holds the number of a key's active jobs and the rule that limited them.
type keyed struct {
	active uint32
	rule   uint64 // the rule's version; each resource has versions of its own
	of     job.ID
}

// inspectKeys checks that no key has more active jobs than its rule allows, except for those that it already
// had. It counts the jobs of the store, and does not ask the model.
func (sh *shard) inspectKeys(v *state.Snapshot) error {
	// Count the active jobs of each key.
	now := map[laneName]keyed{}
	for j, err := range v.Jobs() {
		if err != nil {
			return err
		}
		if key := j.GetFairnessKey(); key != "" && j.GetState() == job.Active {
			at := laneName{j.GetQueue(), key}
			n := now[at]
			n.active++
			now[at] = n
		}
	}
	// Find the rule of each key: its own, else the rule for every key.
	resources, err := v.ResourceIndex()
	if err != nil {
		return err
	}
	for at, n := range now {
		var r *state.Resource
		for _, key := range []string{state.EveryKey, at.key} {
			if own := resources.Resource(state.ResourceKind_RESOURCE_KIND_LIMIT_RULE, op.LimitRuleName(at.queue, key)); own != nil {
				r = own
			}
		}
		if r == nil {
			continue
		}
		n.rule, n.of = r.Version, job.ID(r.Id)
		// Under an unchanged rule, the active jobs must not have grown beyond the limit.
		before, known := sh.keys[at]
		if most := r.GetLimitRule().GetMaxConcurrency(); known && before.rule == n.rule && before.of == n.of && most > 0 && n.active > max(most, before.active) {
			return fmt.Errorf("key %q of queue %s has %d active jobs, at most %d may be", at.key, at.queue, n.active, most)
		}
		now[at] = n
	}
	sh.keys = now
	return nil
}

// fetchable returns the number of a queue's ready jobs that its limits let a fetch take. A fetch may find
// that some of them must wait at a gate. timed reports whether that number changes with time.
func (m *model) fetchable(queue string) (n int, timed bool) {
	q := m.queues[queue]
	if q.paused || q.deleting {
		return 0, false
	}
	n = len(m.ready(queue))
	if q.lanes != nil {
		n = 0
		for key, l := range q.lanes {
			n += m.room(queue, key)
			timed = timed || l.rule.GetRateLimit() > 0
		}
	}
	if q.max > 0 {
		n = min(n, max(q.max-m.count(queue, job.Active), 0))
	}
	if q.rateLimit > 0 {
		n, timed = min(n, int(q.rate.Free(q.rateLimit, q.rateWindowMs, m.clockNs))), true
	}
	return n, timed
}

// inspectFetchable compares the number that wakes waiting fetches with the model's. The number is exact,
// except that it lacks jobs that time alone has released since the store last looked at the queue.
func (sh *shard) inspectFetchable() error {
	for name := range sh.model.queues {
		want, timed := sh.model.fetchable(name)
		if got := sh.steady.store.Fetchable(name); got > want || got < want && !timed {
			return fmt.Errorf("%d jobs of queue %s can be fetched, says the store; in the model %d", got, name, want)
		}
	}
	return nil
}

// openGates returns the op that the duty of the gates proposes, or nil. It contains the first jobs in line
// that may pass together.
func (sh *shard) openGates(nowNs int64) (o op.Op, err error) {
	v := sh.steady.store.Snapshot()
	defer func() { err = errors.Join(err, v.Close()) }()
	open := &op.OpenGate{Meta: duty()}
	for _, g := range sh.steady.store.Gates() {
		ids, err := v.AtGate(g.Kind, g.Name, job.MaxDutyItems)
		if err != nil {
			return nil, err
		}
		view := op.NewSnapshotState(v, sh.steady.store.ResourceIndex(), nowNs)
		for _, id := range ids {
			j, err := v.Job(id)
			if err != nil {
				return nil, err
			}
			opens, _, err := view.Opens(j)
			if err != nil {
				return nil, err
			}
			if opens {
				open.JobIds = append(open.JobIds, j.Id)
			}
		}
	}
	if len(open.JobIds) == 0 {
		return nil, nil
	}
	return open, nil
}

// inspectGates checks, when the duties have nothing left to do, that no job waits at a gate that would let it
// go, and that waiting fetches are woken for every queue with fetchable jobs.
func (sh *shard) inspectGates() error {
	defer func(ns int64) { sh.model.clockNs = ns }(sh.model.clockNs)
	for name := range sh.model.queues {
		if want, _ := sh.model.fetchable(name); want > 0 && sh.steady.store.Fetchable(name) == 0 {
			return fmt.Errorf("%d jobs of queue %s can be fetched, and nobody is told", want, name)
		}
	}
	sh.model.clockNs = max(sh.model.clockNs, sh.clockNs+sh.skewNs) // as late as the duties looked
	for _, j := range byNumber(sh.model) {
		if j.gate != (modelGate{}) && !sh.model.decide(j).stays(j) {
			return fmt.Errorf("job %s waits at the gate of %q, which is open", j.id, j.gate.name)
		}
	}
	return nil
}
