package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// modelLane is the record of a queue's fairness key. It does not contain the numbers of jobs, because the
// model counts them whenever it needs them.
type modelLane struct {
	weight     uint32
	servedNs   int64
	expectedNs int64
	rule       *state.LimitRule // the rule that limits it; nil for none
	rate       *job.RateWindow
	takes      []int64 // exact times of the jobs that the rule's rate has let go
}

// modelQueued is a job as its queue sees it.
type modelQueued struct {
	state  job.State
	ready  bool
	active bool
}

func (q modelQueued) counts() bool { return q.ready || q.active }

// put ends every change of a job: it updates how the queue sees the job.
func (m *model) put(j *modelJob) {
	if j.state != job.Pending {
		j.gate = modelGate{}
	}
	m.setQueued(j, modelQueued{j.state, j.state == job.Pending && j.gate == modelGate{}, j.state == job.Active})
}

// dequeue removes a job from its queue, because the job moves or is removed.
func (m *model) dequeue(j *modelJob) { m.setQueued(j, modelQueued{}) }

// setQueued updates how the queue of a job sees it, and the position of the job's key in the order of keys.
func (m *model) setQueued(j *modelJob, now modelQueued) {
	q, was := m.queue(j.queue), j.queued
	q.stirred = true
	// A queue without keys has no lanes, and a job that neither is ready nor runs is in no lane.
	if q.lanes == nil && j.fairnessKey == "" || !was.counts() && !now.counts() {
		j.queued = now
		return
	}
	if q.lanes == nil {
		q.lanes = map[string]*modelLane{"": {servedNs: q.servedNs}}
	}
	l := q.lanes[j.fairnessKey]
	if l == nil {
		l = &modelLane{rule: m.rule(j.queue, j.fairnessKey)}
		q.lanes[j.fairnessKey] = l
	}
	// A lane that gains its first ready job has no credit for the time before: it begins at beginNs at least.
	had, _ := m.inLane(j.queue, j.fairnessKey)
	j.queued = now
	if w := j.weight; now.ready && w > 0 && (was.state == 0 || was.state == job.Scheduled) {
		l.weight = w
	}
	if has, _ := m.inLane(j.queue, j.fairnessKey); had == 0 && has > 0 {
		l.servedNs = max(l.servedNs, m.beginNs(j.queue, l))
	}
}

// inLane counts the ready and the active jobs of a key.
func (m *model) inLane(queue, key string) (ready, active int) {
	for _, j := range m.jobs {
		if j.queue == queue && j.fairnessKey == key && j.queued.ready {
			ready++
		}
		if j.queue == queue && j.fairnessKey == key && j.queued.active {
			active++
		}
	}
	return ready, active
}

// rule returns the limit rule of a key: its own, else the rule for every key.
func (m *model) rule(queue, key string) *state.LimitRule {
	if key == "" {
		return nil
	}
	var every *state.LimitRule
	for _, r := range m.resources {
		switch rule := r.GetLimitRule(); {
		case r.Kind != state.ResourceKind_RESOURCE_KIND_LIMIT_RULE || rule.GetQueue() != queue:
		case rule.GetKey() == key:
			return rule
		case rule.GetKey() == state.EveryKey:
			every = rule
		}
	}
	return every
}

// room returns the number of a key's jobs that may go.
func (m *model) room(queue, key string) int {
	ready, active := m.inLane(queue, key)
	l := m.queues[queue].lanes[key]
	switch rule := l.rule; {
	case rule == nil:
	case rule.GetPaused():
		return 0
	default:
		if most := int(rule.GetMaxConcurrency()); most > 0 {
			ready = min(ready, max(most-active, 0))
		}
		if rule.GetRateLimit() > 0 {
			ready = min(ready, int(l.rate.Free(rule.GetRateLimit(), rule.GetRateWindowMs(), m.clockNs)))
		}
	}
	return ready
}

// nextLane returns the key that is served next: among the keys that may be served, the one that has been
// served least. It leaves out the lane that the parameter but names; nil leaves out none. If no key may be
// served, ok is false.
func (m *model) nextLane(queue string, but *modelLane) (next string, ok bool) {
	lanes := m.queues[queue].lanes
	for key, l := range lanes {
		if l == but || m.room(queue, key) == 0 {
			continue
		}
		if !ok || cmp.Or(cmp.Compare(l.servedNs, lanes[next].servedNs), cmp.Compare(key, next)) < 0 {
			next, ok = key, true
		}
	}
	return next, ok
}

func (l *modelLane) share() int64 { return int64(max(l.weight, 1)) }

// expects returns the expected duration of a key's job: the key's average, else the queue's, else a second.
func (q *modelQueue) expects(l *modelLane) int64 { return cmp.Or(l.expectedNs, q.expectedNs, 1e9) }

func (q *modelQueue) charge(l *modelLane) int64 { return max(q.expects(l)/l.share(), 1) }

// start returns the key's service at the start of its next job. A key with limits does not save up the time
// in which they kept it back.
func (q *modelQueue) start(l *modelLane) int64 {
	if l.rule == nil {
		return l.servedNs
	}
	return max(l.servedNs, q.servedNs)
}

// beginNs returns the service with which a key begins: the service of a key that always had jobs, but at most
// one job's charge more than the service of the key that is served next.
func (m *model) beginNs(queue string, but *modelLane) int64 {
	q := m.queues[queue]
	if next, ok := m.nextLane(queue, but); ok {
		l := q.lanes[next]
		return min(q.servedNs, q.start(l)+q.charge(l))
	}
	return q.servedNs
}

// beginService charges a job's key for an attempt that begins. The job is still ready.
func (m *model) beginService(j *modelJob) {
	q := m.queues[j.queue]
	if q.lanes == nil {
		return
	}
	l := q.lanes[j.fairnessKey]
	competing := int64(0)
	for key, other := range q.lanes {
		if m.room(j.queue, key) > 0 {
			competing += other.share()
		}
	}
	start, charge := q.start(l), q.charge(l)
	q.servedNs = min(max(q.servedNs+q.expects(l)/max(competing, l.share()), start), start+charge)
	l.servedNs = start + charge
	j.keyed, j.chargedNs = true, charge
	if rule := l.rule; rule.GetRateLimit() > 0 {
		if l.rate == nil {
			l.rate = &job.RateWindow{}
		}
		l.rate.Take(rule.GetRateWindowMs(), m.clockNs)
		l.takes = append(since(l.takes, m.clockNs-rule.GetRateWindowMs()*1e6), m.clockNs)
		if n := len(l.takes); n > int(rule.GetRateLimit()) && q.tooMany == nil {
			q.tooMany = fmt.Errorf("%d jobs of %s were let go in %d ms, at most %d may be", n, j.fairnessKey, rule.GetRateWindowMs(), rule.GetRateLimit())
		}
	}
}

// endService replaces the charge of an attempt by its duration divided by the key's weight, or by nothing if
// the job was not delivered.
func (m *model) endService(j *modelJob, delivered bool) {
	q := m.queues[j.queue]
	if l := q.lanes[j.fairnessKey]; j.keyed && l != nil {
		took := int64(0)
		if delivered {
			took = max(m.clockNs-j.agent.startedNs, 1)
			for _, average := range []*int64{&l.expectedNs, &q.expectedNs} {
				if *average == 0 {
					*average = took
				} else {
					*average = max(*average+(took-*average)/8, 1)
				}
			}
		}
		l.servedNs += took/l.share() - j.chargedNs
	}
	j.keyed, j.chargedNs = false, 0
}

// rulesChanged makes a queue's keys follow the currently declared rules.
func (m *model) rulesChanged(queue string) {
	q := m.queues[queue]
	if q == nil || q.lanes == nil {
		return
	}
	q.stirred = true
	begin := m.beginNs(queue, nil)
	for key, l := range q.lanes {
		rule, was := m.rule(queue, key), l.rule
		if rule == was {
			continue
		}
		l.rule = rule
		if ready, _ := m.inLane(queue, key); ready > 0 {
			l.servedNs = max(l.servedNs, begin)
		}
		l.takes = since(l.takes, m.clockNs-was.GetRateWindowMs()*1e6)
		switch {
		case rule.GetRateLimit() == 0:
			l.rate, l.takes = nil, nil
		case l.rate != nil:
			l.rate = l.rate.Over(rule.GetRateWindowMs(), m.clockNs)
		}
	}
}

// since returns the times after ns.
func since(takes []int64, ns int64) []int64 {
	return slices.DeleteFunc(takes, func(at int64) bool { return at <= ns })
}

// forgettable reports whether a key has nothing left that matters: no jobs, no rate to remember, and either
// no more service than the queue or no key with jobs to compete with. The empty key is never forgettable by
// itself.
func (m *model) forgettable(queue, key string) bool {
	q := m.queues[queue]
	l, jobs := q.lanes[key], 0
	for other := range q.lanes {
		ready, active := m.inLane(queue, other)
		jobs += ready + active
	}
	ready, active := m.inLane(queue, key)
	return key != "" && ready+active == 0 && (l.rate == nil || l.rate.ForgottenAt() <= m.clockNs) && (l.servedNs <= q.servedNs || jobs == 0)
}

// forgetLanes forgets the keys that the store has forgotten, if it may forget them. It also checks that the
// store has forgotten every key that it may, in queues that the entry touched. A store looks at no other
// queues, and only after the whole entry has been applied.
func (m *model) forgetLanes(v *state.Snapshot) error {
	for name, q := range m.queues {
		for key, l := range maps.Clone(q.lanes) {
			rec, err := v.Lane(name, key)
			switch {
			case err != nil:
				return err
			case m.forgettable(name, key):
				if rec == nil {
					delete(q.lanes, key)
				} else if q.stirred {
					return fmt.Errorf("queue %s has not forgotten the key %q, which has no jobs and no past: %v", name, key, rec)
				}
			case l.rate != nil && rec.GetRate() == nil && l.rate.ForgottenAt() <= m.clockNs:
				l.rate = nil
			}
		}
		if len(q.lanes) == 1 && q.lanes[""] != nil {
			q.lanes = nil
		}
		q.stirred = false
	}
	return nil
}

// compareLanes compares a store's records of fairness keys with the model's.
func (m *model) compareLanes(v *state.Snapshot) error {
	for name, want := range m.queues {
		q, err := v.Queue(name)
		if err != nil || int(q.GetLanes()) != len(want.lanes) {
			return fmt.Errorf("queue %s has %d keys in the store, %d in the model (%w)", name, q.GetLanes(), len(want.lanes), err)
		}
		for key, l := range want.lanes {
			is, err := v.Lane(name, key)
			if err != nil {
				return err
			}
			ready, active := m.inLane(name, key)
			should := &state.Lane{
				Queue: name, Key: key, Pending: uint64(ready), Active: uint64(active),
				Weight: l.weight, ServedNs: l.servedNs, ExpectedNs: l.expectedNs, Rate: l.rate,
			}
			if !proto.Equal(is, should) {
				return fmt.Errorf("key %q of queue %s is %v in the store, %v in the model", key, name, is, should)
			}
		}
	}
	return nil
}

// mostUrgent returns the job that goes first among jobs that compete by priority and age alone. They are
// sorted by priority and number, so the first of each priority is its oldest.
func mostUrgent(all []*modelJob, ageingMs int64) (best *modelJob) {
	if ageingMs == 0 && len(all) > 0 {
		return all[0]
	}
	at := func(j *modelJob) int64 { return int64(j.priority)*ageingMs + j.id.UnixMs() }
	for i, j := range all {
		if i > 0 && all[i-1].priority == j.priority {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(at(j), at(best)), cmp.Compare(j.number, best.number)) < 0 {
			best = j
		}
	}
	return best
}

// ofKey returns the jobs that count for a key.
func ofKey(all []*modelJob, key string) []*modelJob {
	return slices.DeleteFunc(slices.Clone(all), func(j *modelJob) bool { return j.fairnessKey != key })
}

// longestLane returns the key of a queue with the most ready jobs.
func (m *model) longestLane(queue string) (longest string) {
	most := -1
	for _, key := range slices.Sorted(maps.Keys(m.queues[queue].lanes)) {
		if ready, _ := m.inLane(queue, key); ready > most {
			longest, most = key, ready
		}
	}
	return longest
}

// forget makes the model forget the keys that its store has forgotten.
func (sh *shard) forget() error {
	v := sh.steady.store.Snapshot()
	defer v.Close()
	return sh.model.forgetLanes(v)
}
