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

// modelLane is what is known of a fairness key of a queue besides its jobs, which are
// counted whenever their number matters.
type modelLane struct {
	weight     uint32
	servedNs   int64
	expectedNs int64
	rule       *state.LimitRule // that it obeys; nil for none
	rate       *job.RateWindow
	takes      []int64 // what was let go under the rule, and when: the window itself, exactly
}

// modelPlace is what a job is to its queue.
type modelPlace struct {
	state  job.State
	ready  bool
	active bool
}

func (p modelPlace) counts() bool { return p.ready || p.active }

// put is what every change of a job ends with: its queue sees it as it is.
func (m *model) put(j *modelJob) {
	if j.state != job.Pending {
		j.gate = modelGate{}
	}
	m.seat(j, modelPlace{j.state, j.state == job.Pending && j.gate == modelGate{}, j.state == job.Active})
}

// takeOut has a job leave its queue, for another or for good.
func (m *model) takeOut(j *modelJob) { m.seat(j, modelPlace{}) }

// seat has a job take its place in its queue, and its key in the order of keys.
func (m *model) seat(j *modelJob, now modelPlace) {
	q, was := m.queue(j.queue), j.place
	q.stirred = true
	if q.lanes == nil && j.fairnessKey == "" || !was.counts() && !now.counts() {
		j.place = now
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
	had, _ := m.inLane(j.queue, j.fairnessKey)
	j.place = now
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
		if j.queue == queue && j.fairnessKey == key && j.place.ready {
			ready++
		}
		if j.queue == queue && j.fairnessKey == key && j.place.active {
			active++
		}
	}
	return ready, active
}

// rule is what limits a key: the rule of its own, else that of every key.
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

// room is how many jobs of a key may be let go.
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

// nextLane is the key that is served next, of those that may be: the one that has
// been served least, but for one that is not looked at. ok is false for none.
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

// expects is how long a job of the key is expected to take: as its own did, else as
// those of the queue, else a second.
func (q *modelQueue) expects(l *modelLane) int64 { return cmp.Or(l.expectedNs, q.expectedNs, 1e9) }

func (q *modelQueue) charge(l *modelLane) int64 { return max(q.expects(l)/l.share(), 1) }

// start is what a key has been served where its next job is let go: the time in which
// its limits kept it is no credit.
func (q *modelQueue) start(l *modelLane) int64 {
	if l.rule == nil {
		return l.servedNs
	}
	return max(l.servedNs, q.servedNs)
}

// beginNs is where a key begins: where one would be that always had jobs, and no
// further than a job beyond the one that is served next.
func (m *model) beginNs(queue string, but *modelLane) int64 {
	q := m.queues[queue]
	if next, ok := m.nextLane(queue, but); ok {
		l := q.lanes[next]
		return min(q.servedNs, q.start(l)+q.charge(l))
	}
	return q.servedNs
}

// beginService charges a job's key for an attempt that begins. The job is ready still.
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

// endService corrects what an attempt was charged to what it took: nothing, where it
// was not delivered.
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

// rulesChanged has the keys of a queue follow the rules that are declared now.
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

// since are the times that lie after one.
func since(takes []int64, ns int64) []int64 {
	return slices.DeleteFunc(takes, func(at int64) bool { return at <= ns })
}

// forgettable says whether a key has nothing left that matters: no jobs, no rate to
// remember, and no more than the queue is at, or nobody to compete with.
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

// forgetLanes forgets the keys that the store has forgotten, if it may, and wants it
// to have forgotten all it may of the queues that the entry was about. A store looks at
// no others, and only when the whole entry has been applied.
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

// compareLanes holds what a store knows of fairness keys against the model.
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

// mostUrgent is the job that goes first of some that compete by priority and age
// alone: the first of each priority is known by its number.
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

// ofKey are those of some jobs that count for a key.
func ofKey(all []*modelJob, key string) []*modelJob {
	return slices.DeleteFunc(slices.Clone(all), func(j *modelJob) bool { return j.fairnessKey != key })
}

// longestLane is the key of a queue with the most ready jobs.
func (m *model) longestLane(queue string) (longest string) {
	most := -1
	for _, key := range slices.Sorted(maps.Keys(m.queues[queue].lanes)) {
		if ready, _ := m.inLane(queue, key); ready > most {
			longest, most = key, ready
		}
	}
	return longest
}

// forget has the model forget the keys that its store has.
func (sh *shard) forget() error {
	v := sh.steady.store.Snapshot()
	defer v.Close()
	return sh.model.forgetLanes(v)
}
