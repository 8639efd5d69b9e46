package server

import (
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
)

// alertRules declares the resource for alert rules, which notify a webhook when a condition begins or ceases
// to hold.
var alertRules = resource[api.AlertRuleRequest, api.AlertRule]{
	kind: state.ResourceKind_RESOURCE_KIND_ALERT_RULE,
	path: "/alerts", item: "/{id}", one: "alert rule", many: "alert rules",
	read: tenancy.QueueRead, write: tenancy.QueueManage,
	prefix: "alert_", named: inPath,
	from: func(f *convert.Faults, body *api.AlertRuleRequest, _ *state.Resource, _ int64) *op.PutResource {
		return convert.FromAlertRule(f, body)
	},
	to: func(home *cell.Cell, r *state.Resource) (api.AlertRule, error) {
		a, err := home.State().Alert([16]byte(r.Id))
		return convert.ToAlertRule(r, a), err
	},
	queue: alertQueue,
}

// alertQueue returns the queue that an alert rule watches, also if the rule watches the budget of that queue.
// It returns "" for a rule about all queues or about another budget.
func alertQueue(r *state.Resource) string {
	target := r.AlertRule.GetTarget()
	if r.AlertRule.GetWhen() != state.AlertSubject_ALERT_SUBJECT_BUDGET {
		return target
	}
	if scope, queue, _ := strings.Cut(target, "/"); scope == op.ScopeWord(state.BudgetScope_BUDGET_SCOPE_QUEUE) {
		return queue
	}
	return ""
}
