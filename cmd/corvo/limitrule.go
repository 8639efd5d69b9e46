package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

var limitRules = resource[api.LimitRuleRequest, api.LimitRule]{
	use: "limits", short: "Manage limit rules of queues and fairness keys", one: "limit rule", many: "limit rules", arg: "QUEUE[/KEY]",
	list: (*client.Client).LimitRules, get: (*client.Client).LimitRule, create: (*client.Client).CreateLimitRule, put: (*client.Client).PutLimitRule, remove: (*client.Client).DeleteLimitRule,
	version: func(l *api.LimitRule) int64 { return l.Version },
	begin: func(req *api.LimitRuleRequest, arg string) error {
		queue, key, keyed := strings.Cut(arg, "/")
		if queue == "" || keyed && key == "" {
			return misusef("%q is not a limit rule; write QUEUE, QUEUE/KEY, or QUEUE/* for every key without a rule of its own", arg)
		}
		req.Queue, req.Key = queue, key
		return nil
	},
	flags: []edit[api.LimitRuleRequest]{
		option("max-concurrency", "limit on active jobs", whole, func(r *api.LimitRuleRequest) **int { return &r.MaxConcurrency }),
		option("rate-limit", "limit on jobs started in any --rate-window", whole, func(r *api.LimitRuleRequest) **int { return &r.RateLimit }),
		set("rate-window", "length of the window of --rate-limit, 1s to 24h", span, func(r *api.LimitRuleRequest) *api.Duration { return &r.RateWindow }),
		option("paused", "start no jobs", yesNo, func(r *api.LimitRuleRequest) **bool { return &r.Paused }),
	},
	again: func(was api.LimitRule, req *api.LimitRuleRequest) {
		req.RateWindow = api.Duration(maybe(was.RateWindowMs, millis))
	},
	columns: []column[api.LimitRule]{
		{"RULE", func(l api.LimitRule) string { return l.ID }},
		{"MAX CONCURRENCY", func(l api.LimitRule) string { return maybe(l.MaxConcurrency, count) }},
		{"RATE", func(l api.LimitRule) string { return maybe(l.RateLimit, count) }},
		{"WINDOW", func(l api.LimitRule) string { return maybe(l.RateWindowMs, millis) }},
		{"PAUSED", func(l api.LimitRule) string { return yes(l.Paused) }},
	},
	details: []column[api.LimitRule]{
		{"CREATED", func(l api.LimitRule) string { return clock(l.CreatedAt) }},
	},
}

func newLimits() *cobra.Command {
	cmd := limitRules.command()
	cmd.Aliases = []string{"limit"}
	return cmd
}
