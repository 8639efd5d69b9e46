package main

import (
	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

var alertRules = resource[api.AlertRuleRequest, api.AlertRule]{
	use: "alerts", short: "Manage alert rules, which notify webhooks", one: "alert rule", many: "alert rules", arg: "ALERT",
	list: (*client.Client).AlertRules, get: (*client.Client).AlertRule, create: (*client.Client).CreateAlertRule,
	put: (*client.Client).PutAlertRule, remove: (*client.Client).DeleteAlertRule,
	version: func(a *api.AlertRule) int64 { return a.Version },
	prefix:  "alert_", makes: "NAME",
	named: func(a api.AlertRule) (string, string) { return a.ID, a.Name },
	begin: func(req *api.AlertRuleRequest, arg string) error {
		req.Name = arg
		return nil
	},
	flags: []edit[api.AlertRuleRequest]{
		set("when", "watched figure: queue_depth, dead, workers, oldest_pending (in seconds) or budget (in percent)", words, func(r *api.AlertRuleRequest) *string { return &r.When }),
		set("queue", "watched queue (default all)", words, func(r *api.AlertRuleRequest) *string { return &r.Queue }),
		set("target", "watched budget, SCOPE/TARGET", words, func(r *api.AlertRuleRequest) *string { return &r.Target }),
		set("op", "comparison with the threshold: > (default) or <", words, func(r *api.AlertRuleRequest) *string { return &r.Op }),
		option("threshold", "value that fires the alert when it is passed", number, func(r *api.AlertRuleRequest) **float64 { return &r.Threshold }),
		set("for", "time beyond the threshold before the alert fires, such as 5m (default 0s)", span, func(r *api.AlertRuleRequest) *api.Duration { return &r.For }),
		set("notify", "id of the webhook to notify", words, func(r *api.AlertRuleRequest) *string { return &r.Notify }),
	},
	renames: []edit[api.AlertRuleRequest]{
		set("name", "new name of the rule", words, func(r *api.AlertRuleRequest) *string { return &r.Name }),
	},
	columns: []column[api.AlertRule]{
		{"NAME", func(a api.AlertRule) string { return a.Name }},
		{"STATE", func(a api.AlertRule) string { return a.State }},
		{"WHEN", func(a api.AlertRule) string { return a.When }},
		{"OP", func(a api.AlertRule) string { return a.Op }},
		{"THRESHOLD", func(a api.AlertRule) string { return decimal(a.Threshold) }},
		{"FOR", func(a api.AlertRule) string { return string(a.For) }},
		{"QUEUE", func(a api.AlertRule) string { return a.Queue }},
		{"BUDGET", func(a api.AlertRule) string { return a.Target }},
		{"ID", func(a api.AlertRule) string { return a.ID }},
	},
	details: []column[api.AlertRule]{
		{"NOTIFIES", func(a api.AlertRule) string { return a.Notify }},
		{"SINCE", func(a api.AlertRule) string { return maybe(a.Since, clock) }},
		{"VALUE THEN", func(a api.AlertRule) string { return maybe(a.Value, decimal) }},
		{"CREATED", func(a api.AlertRule) string { return clock(a.CreatedAt) }},
	},
}

func newAlerts() *cobra.Command { return alertRules.command() }
