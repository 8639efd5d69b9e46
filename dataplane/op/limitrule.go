package op

import (
	"errors"
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// LimitRuleName returns the name of the rule for a fairness key of a queue.
func LimitRuleName(queue, key string) string { return queue + "/" + key }

// checkLimitRule checks a declared limit rule.
func checkLimitRule(p *problems, o *PutResource) {
	r := o.GetResource().GetLimitRule()
	p.only(o, r != nil)
	p.add("queue", job.CheckStoredQueueName(r.GetQueue()))
	if r.GetKey() != state.EveryKey {
		p.add("key", CheckFairnessKey(r.GetKey()))
	}
	if o.GetResource().GetName() != LimitRuleName(r.GetQueue(), r.GetKey()) {
		p.add("name", errors.New("is not the queue and the key of the rule: queue/key"))
	}
	if n := r.GetMaxConcurrency(); n > job.MaxConcurrency {
		p.add("max_concurrency", fmt.Errorf("is %d; at most %d are allowed, 0 is unlimited", n, job.MaxConcurrency))
	}
	p.add("rate_limit", job.CheckRateLimit(r.GetRateLimit()))
	switch {
	case r.GetRateLimit() > 0:
		p.add("rate_window", job.CheckRateWindow(r.GetRateWindowMs()))
	case r.GetRateWindowMs() != 0:
		p.add("rate_window", errors.New("goes with rate_limit, which is missing"))
	}
}

// putLimitRule applies the queue's rules to the lanes that the queue has now.
func putLimitRule(tx *state.Tx, o *PutResource, _ *state.Resource) error {
	tx.ApplyRules(o.Resource.GetLimitRule().GetQueue())
	return nil
}

// deletedLimitRule applies the queue's remaining rules to the lanes that the queue has now.
func deletedLimitRule(tx *state.Tx, was *state.Resource) error {
	tx.ApplyRules(was.GetLimitRule().GetQueue())
	return nil
}
