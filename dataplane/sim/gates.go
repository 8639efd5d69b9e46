package sim

import (
	"cmp"
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// modelGate is the gate at which a pending job waits instead of being ready; the zero gate is none.
type modelGate struct {
	kind job.Gate
	name string
}

// minuteMs is the window of a provider's limits.
const minuteMs = 60_000

// modelTraffic counts the requests and tokens of a provider.
type modelTraffic struct {
	requests *job.RateWindow
	takes    []int64       // their exact times
	tokens   [2]modelMeter // input, output
	tooMany  error
}

// modelMeter counts one kind of token.
type modelMeter struct {
	used               *job.RateWindow
	reserved, expected uint64
}

// modelClaim holds the tokens that an attempt has reserved on a provider.
type modelClaim struct {
	provider       *state.Resource // as declared when the attempt began; nil for none
	reserved, used [2]uint64
}

// providerFor returns the provider for which a job's attempts count, or nil.
func (m *model) providerFor(j *modelJob) *state.Resource {
	name := cmp.Or(j.options.GetProvider(), m.queue(j.queue).provider)
	return m.resources[modelName{state.ResourceKind_RESOURCE_KIND_PROVIDER, name}]
}

// shares returns a shard's share of a provider's limits.
func shares(r *state.Resource) (requests uint64, tokens [2]uint64) {
	n, p := uint64(r.GetShards()), r.GetProvider()
	return p.GetRequests() / n, [2]uint64{p.GetInputTokens() / n, p.GetOutputTokens() / n}
}

// needs returns the tokens that one attempt is expected to use. It returns the whole limit if nothing is
// known or if more than the limit is expected.
func (t *modelMeter) needs(limit uint64) uint64 {
	if limit > 0 && (t.expected == 0 || t.expected > limit) {
		return limit
	}
	return t.expected
}

// verdict is the decision about a job that is next. The zero verdict lets the job go.
type verdict struct {
	to   job.State // Pending if it waits at a gate
	hold job.Hold
	gate job.Gate
	by   string
}

// stays reports whether a verdict leaves a job at its gate.
func (v verdict) stays(j *modelJob) bool {
	return v.to == job.Pending && modelGate{v.gate, v.by} == j.gate
}

// decide decides about a job that is next. The first reason to keep the job back wins.
func (m *model) decide(j *modelJob) (v verdict) {
	if v = m.decidePerson(j); v != (verdict{}) {
		return v
	}
	if j.tooDear() {
		return verdict{to: job.Held, hold: job.Hold_HOLD_MAX_COST}
	}
	if v = m.decideProvider(j); v != (verdict{}) {
		return v
	}
	return m.decideBudgets(j)
}

// putAside applies a verdict to a job that may not go.
func (m *model) putAside(j *modelJob, v verdict) {
	if v.to == job.Dead || v.hold == job.Hold_HOLD_BUDGET {
		m.noticed[notice{state.EventType_EVENT_BUDGET_EXCEEDED, j.id}]++
	}
	switch v.to {
	case job.Held:
		m.keep(j, v.hold, v.by)
	case job.Dead:
		m.bury(j, anyReason)
	default:
		j.gate = modelGate{v.gate, v.by}
		m.put(j)
	}
}

// decideProvider decides whether a job must wait for its provider.
func (m *model) decideProvider(j *modelJob) verdict {
	r := m.providerFor(j)
	if r == nil {
		return verdict{}
	}
	kept := verdict{to: job.Pending, gate: job.Gate_GATE_PROVIDER, by: r.Name}
	t := m.traffic[job.ID(r.Id)]
	if t == nil {
		t = &modelTraffic{}
	}
	requests, tokens := shares(r)
	if requests > 0 && t.requests.Taken(minuteMs, m.clockNs)+1 > requests {
		return kept
	}
	for i, limit := range tokens {
		meter := &t.tokens[i]
		if limit > 0 && meter.used.Taken(minuteMs, m.clockNs)+meter.reserved+meter.needs(limit) > limit {
			return kept
		}
	}
	return verdict{}
}

// claim counts an attempt that begins for its job's provider.
func (m *model) claim(j *modelJob) {
	r := m.providerFor(j)
	if r == nil {
		return
	}
	t := m.traffic[job.ID(r.Id)]
	if t == nil {
		t = &modelTraffic{requests: &job.RateWindow{}}
		m.traffic[job.ID(r.Id)] = t
	}
	requests, tokens := shares(r)
	t.requests.Take(minuteMs, m.clockNs)
	t.takes = append(since(t.takes, m.clockNs-minuteMs*1e6), m.clockNs)
	if requests > 0 && len(t.takes) > int(requests) && m.relimited[job.ID(r.Id)] <= t.takes[0] {
		t.tooMany = fmt.Errorf("provider %s had %d requests in a minute, at most %d may be", r.Name, len(t.takes), requests)
	}
	j.claim = modelClaim{provider: r}
	for i, limit := range tokens {
		j.claim.reserved[i] = t.tokens[i].needs(limit)
		t.tokens[i].reserved += j.claim.reserved[i]
	}
}

// claimed returns the traffic of the provider on which an attempt has reserved tokens, or nil if there is
// none or the provider is gone.
func (m *model) claimed(j *modelJob) *modelTraffic {
	if j.claim.provider == nil {
		return nil
	}
	return m.traffic[job.ID(j.claim.provider.Id)]
}

// spendTokens counts an attempt's reported tokens, and releases as many of its reserved tokens.
func (m *model) spendTokens(j *modelJob, u *job.Usage) {
	t := m.claimed(j)
	if t == nil {
		return
	}
	for i, n := range [2]int64{u.GetInputTokens() + u.GetCacheCreationTokens(), u.GetOutputTokens()} {
		if n == 0 {
			continue
		}
		meter, back := &t.tokens[i], min(uint64(n), j.claim.reserved[i])
		if meter.used == nil {
			meter.used = &job.RateWindow{}
		}
		meter.used.TakeN(uint64(n), minuteMs, m.clockNs)
		meter.reserved -= back
		j.claim.reserved[i] -= back
		j.claim.used[i] = min(j.claim.used[i]+uint64(n), math.MaxUint32) // as the state counts an attempt's tokens
	}
}

// giveUp releases everything that an attempt has reserved when it ends, and learns from its cost, its
// duration and its tokens. The tokens change the number that the next attempt is expected to use, unless the
// attempt did not complete and used none.
func (m *model) giveUp(j *modelJob, delivered, completed bool) {
	m.settleBudgets(j)
	m.learnCost(j, completed)
	m.endService(j, delivered)
	m.meterAttempt(j, delivered)
	if t := m.claimed(j); t != nil {
		for i := range t.tokens {
			meter, used := &t.tokens[i], j.claim.used[i]
			meter.reserved -= j.claim.reserved[i]
			switch {
			case !completed && j.claim.used == [2]uint64{}:
			case meter.expected == 0:
				meter.expected = max(used, 1)
			case used > meter.expected:
				meter.expected += (used - meter.expected + 7) / 8
			default:
				meter.expected = max(meter.expected-(meter.expected-used)/8, 1)
			}
		}
	}
	j.claim = modelClaim{}
}

func (m *model) openGate(o *op.OpenGate) outcome {
	result := &op.OpenGateResult{}
	for _, b := range o.GetJobIds() {
		j := m.jobs[job.ID(b)]
		if j == nil || j.gate == (modelGate{}) {
			continue
		}
		switch v := m.decide(j); {
		case v.stays(j):
			continue
		case v == verdict{}:
			j.gate = modelGate{}
			m.put(j)
		default:
			m.putAside(j, v)
		}
		result.Opened++
	}
	return outcome{result: result}
}

// gated returns the number of a queue's jobs that wait at gates.
func (m *model) gated(queue string) (n uint64) {
	for _, j := range m.jobs {
		if j.queue == queue && j.gate != (modelGate{}) {
			n++
		}
	}
	return n
}

// compareTraffic compares a store's traffic of providers, and the numbers of jobs at gates, with the model's.
func (m *model) compareTraffic(v *state.Snapshot) error {
	if n := v.Head().GetTrafficRecords(); n != uint64(len(m.traffic)) {
		return fmt.Errorf("something goes to %d providers in the store, to %d in the model", n, len(m.traffic))
	}
	for id, want := range m.traffic {
		t, err := v.Traffic(id)
		if err != nil {
			return err
		}
		should := &state.Traffic{
			Name: t.GetName(), Requests: want.requests, InputTokens: want.tokens[0].used, OutputTokens: want.tokens[1].used,
			ReservedInputTokens: want.tokens[0].reserved, ReservedOutputTokens: want.tokens[1].reserved,
			ExpectedInputTokens: want.tokens[0].expected, ExpectedOutputTokens: want.tokens[1].expected,
		}
		if !proto.Equal(t, should) {
			return fmt.Errorf("provider %s has the traffic %v in the store, %v in the model", t.GetName(), t, should)
		}
		if want.tooMany != nil {
			return want.tooMany
		}
	}
	for name := range m.queues {
		q, err := v.Queue(name)
		if err != nil || q.GetGated() != m.gated(name) {
			return fmt.Errorf("%d jobs of queue %s wait at gates in the store, %d in the model (%w)", q.GetGated(), name, m.gated(name), err)
		}
	}
	return nil
}
