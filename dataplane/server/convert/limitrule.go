package convert

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// FromLimitRule converts a rule of one fairness key, or of state.EveryKey.
func FromLimitRule(f *Faults, r *api.LimitRuleRequest, _ *state.Resource, _ int64) *op.PutResource {
	if err := job.CheckQueueName(r.Queue); err != nil {
		f.Invalid("queue", "%v", err)
	}
	if r.Key != state.EveryKey {
		if err := op.CheckFairnessKey(r.Key); err != nil {
			f.Invalid("key", "%v", err)
		}
	}
	rule := &state.LimitRule{Queue: r.Queue, Key: r.Key, Paused: valueOf(r.Paused)}
	rule.MaxConcurrency, rule.RateLimit, rule.RateWindowMs = ruleLimits(f, r)
	return &op.PutResource{Resource: &state.Resource{LimitRule: rule}}
}

// FromQueueRule sets the limits and Paused of o by the rule of a whole queue, which is a part of the queue's
// settings. An absent limit becomes no limit. Without paused, a paused or draining queue stays so.
func FromQueueRule(f *Faults, r *api.LimitRuleRequest, o *op.SetQueue) {
	most, limit, windowMs := ruleLimits(f, r)
	o.Paused, o.MaxConcurrency, o.RateLimit, o.RateWindowMs = r.Paused, &most, &limit, &windowMs
}

func ruleLimits(f *Faults, r *api.LimitRuleRequest) (most, limit uint32, windowMs int64) {
	if n := concurrency(f, "max_concurrency", valueOf(r.MaxConcurrency)); n != nil {
		most = *n
	}
	if n := within(f, "rate_limit", valueOf(r.RateLimit), 0, job.MaxRateLimit); n != nil {
		limit = *n
	}
	switch {
	case limit > 0 && r.RateWindow == "":
		f.Invalid("rate_window", "is missing: give the window of rate_limit, such as \"1m\"")
	case limit > 0:
		windowMs = rateWindow(f, "rate_window", anyMillis(f, "rate_window", r.RateWindow))
	case r.RateWindow != "":
		f.Invalid("rate_window", "is %s without a rate_limit; give both, or leave it out", r.RateWindow)
	}
	return most, limit, windowMs
}

// ToLimitRule converts a fairness key's rule to its API form.
func ToLimitRule(r *state.Resource) api.LimitRule {
	rule := r.GetLimitRule()
	return api.LimitRule{
		ID: r.Name, Queue: rule.GetQueue(), Key: rule.GetKey(), Paused: rule.GetPaused(),
		MaxConcurrency: limited(int(rule.GetMaxConcurrency())), RateLimit: limited(int(rule.GetRateLimit())),
		RateWindowMs: limited(rule.GetRateWindowMs()), CreatedAt: timeOf(r.CreatedNs),
	}
}

// ToQueueRule converts the rule of a whole queue; ok is false if the queue has no limit and is not paused.
func ToQueueRule(q *state.Queue) (api.LimitRule, bool) {
	return api.LimitRule{
		ID: q.GetName(), Queue: q.GetName(), Paused: q.GetPaused(),
		MaxConcurrency: limited(int(q.GetMaxConcurrency())), RateLimit: limited(int(q.GetRateLimit())),
		RateWindowMs: limited(q.GetRateWindowMs()), CreatedAt: timeOf(q.GetCreatedNs()),
	}, q.GetPaused() || q.GetMaxConcurrency() > 0 || q.GetRateLimit() > 0
}

// limited returns nil for 0, which means no limit.
func limited[T int | int64](n T) *T {
	if n == 0 {
		return nil
	}
	return &n
}
