package sim

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// The names in this file are few, so that they collide. A limit rule is declared on the first shard,
// whichever shard its queue belongs to.

func (w *workload) fairnessKey() string { return fmt.Sprintf("tenant-%d", w.rng.IntN(4)) }

func (w *workload) providerName() string { return fmt.Sprintf("provider-%d", w.rng.IntN(2)) }

// limits gives some jobs a fairness key, and some a provider.
func (w *workload) limits(n *op.NewJob) {
	if w.keyed && !w.chance(4) {
		n.FairnessKey = w.fairnessKey()
		if w.chance(3) {
			n.FairnessWeight = uint32(w.oftenFew(4, job.MaxFairnessWeight))
		}
	}
	if w.chance(6) {
		n.Opt().Provider = w.providerName()
	}
}

func (w *workload) limitRule() *op.PutResource {
	rule := &state.LimitRule{Queue: pick(w, pick(w, w.sh.shards).work.queues), Key: w.fairnessKey(), Paused: w.chance(6)}
	if w.chance(3) {
		rule.Key = state.EveryKey
	}
	if w.chance(2) {
		rule.MaxConcurrency = uint32(w.rng.IntN(3))
	}
	if w.chance(2) {
		rule.RateLimit, rule.RateWindowMs = uint32(1+w.rng.IntN(3)), 1000+w.rng.Int64N(9000)
	}
	return &op.PutResource{Resource: &state.Resource{
		Kind: state.ResourceKind_RESOURCE_KIND_LIMIT_RULE, Name: op.LimitRuleName(rule.Queue, rule.Key), LimitRule: rule,
	}}
}

// provider draws a provider. Each of its limits on requests and tokens is absent or at least one for each
// shard.
func (w *workload) provider() *op.PutResource {
	limit := func(most int) uint64 {
		if w.chance(2) {
			return 0
		}
		return uint64(len(w.sh.shards) + w.rng.IntN(most))
	}
	return &op.PutResource{Resource: &state.Resource{
		Kind: state.ResourceKind_RESOURCE_KIND_PROVIDER, Name: w.providerName(),
		Provider: &state.Provider{Requests: limit(12), InputTokens: limit(3000), OutputTokens: limit(3000)},
	}}
}

// tuneQueue draws a queue's ageing and provider.
func (w *workload) tuneQueue(o *op.SetQueue) {
	if w.chance(4) {
		o.AgeingMs = proto.Int64(pick(w, []int64{0, 1 + w.rng.Int64N(5000)}))
	}
	if w.chance(4) {
		o.Provider = proto.String(pick(w, []string{"", w.providerName()}))
	}
}

// openGate draws mostly jobs at gates. The op decides whether they may pass.
func (w *workload) openGate() op.Op {
	return &op.OpenGate{Meta: duty(), JobIds: idBytes(w.some(w.oftenFew(4, 40), func(j *modelJob) bool {
		return j.gate != modelGate{} || w.chance(30)
	}))}
}

// limitsEdge does the same as edge for the limits of fairness keys and providers.
func (w *workload) limitsEdge() int64 {
	before := func(takes []int64, limit uint64, windowMs int64) int64 {
		if limit == 0 || uint64(len(takes)) < limit {
			return 0
		}
		windowNs := windowMs * 1e6
		return takes[0] + windowNs - 1 - w.rng.Int64N(windowNs/64) - w.sh.skewNs
	}
	for _, name := range w.queues {
		q := w.m.queues[name]
		if q == nil {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(q.lanes)) {
			l := q.lanes[key]
			if at := before(l.takes, uint64(l.rule.GetRateLimit()), l.rule.GetRateWindowMs()); at > 0 {
				return at
			}
		}
	}
	for _, id := range sortedIDs(w.m.traffic) {
		for _, r := range w.m.declaredOf(state.ResourceKind_RESOURCE_KIND_PROVIDER) {
			if requests, _ := shares(r); string(r.Id) == string(id[:]) {
				return before(w.m.traffic[id].takes, requests, minuteMs)
			}
		}
	}
	return 0
}
