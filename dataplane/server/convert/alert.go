package convert

import (
	"cmp"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/dataplane/duties"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// FromAlertRule converts an alert rule and fills in defaults. The op makes the checks that need the state,
// such as that the webhook exists.
func FromAlertRule(f *Faults, r *api.AlertRuleRequest) *op.PutResource {
	rule := &state.AlertRule{Label: r.Name, Notify: r.Notify}
	switch err := job.CheckText(r.Name, job.MaxLabel); {
	case r.Name == "":
		f.Invalid("name", "is missing")
	case err != nil:
		f.Invalid("name", "%v", err)
	}
	var known bool
	if rule.When, known = state.ParseAlertSubject(r.When); !known {
		f.Invalid("when", "is %s; use queue_depth, dead, workers, oldest_pending or budget", text.Quote(r.When))
	}
	if rule.Comparison, known = state.ParseComparison(cmp.Or(r.Op, ">")); !known {
		f.Invalid("op", "is %s; use > or <", text.Quote(r.Op))
	}
	if r.Threshold == nil {
		f.Invalid("threshold", "is missing")
	} else {
		rule.Threshold = *r.Threshold
	}
	if r.Notify == "" {
		f.Invalid("notify", "is missing: give the id of a webhook")
	}
	rule.Target = alertTarget(f, r, rule.When)
	rule.ForMs = millis(f, "for", r.For, 0, job.MaxAlertFor)
	return &op.PutResource{Resource: &state.Resource{AlertRule: rule}}
}

// alertTarget returns the queue that a rule watches, "" for all queues, or the budget as scope/target.
func alertTarget(f *Faults, r *api.AlertRuleRequest, when state.AlertSubject) string {
	if when == state.AlertSubject_ALERT_SUBJECT_BUDGET {
		if r.Queue != "" {
			f.Invalid("queue", "is not for a budget: name that in target, as scope/target")
		}
		return r.Target
	}
	if r.Target != "" {
		f.Invalid("target", "is for a budget: name a queue in queue, or leave both out for all queues")
	}
	if r.Queue != "" {
		if err := job.CheckQueueName(r.Queue); err != nil {
			f.Invalid("queue", "%v", err)
		}
	}
	return r.Queue
}

// ToAlertRule converts an alert rule to its API form. a is the rule's state, or nil before the rule first
// fired.
func ToAlertRule(r *state.Resource, a *state.Alert) api.AlertRule {
	out := api.AlertRule{AlertWatch: duties.AlertWatch(r), Notify: r.AlertRule.GetNotify(), State: api.AlertOK, CreatedAt: timeOf(r.CreatedNs)}
	if a == nil {
		return out
	}
	if a.Firing {
		out.State = api.AlertFiring
	}
	at := timeOf(a.SinceNs)
	out.Since, out.Value = &at, &a.Value
	return out
}
