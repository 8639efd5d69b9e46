package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/billing/money"
)

var budgets = resource[api.BudgetRequest, api.Budget]{
	use: "budget", short: "Manage budgets, limits on the cost of jobs", one: "budget", many: "budgets", arg: "SCOPE/TARGET",
	list: (*client.Client).Budgets, create: (*client.Client).CreateBudget,
	get: func(c *client.Client, ctx context.Context, id string, r client.Read) (api.Budget, error) {
		scope, target, _ := strings.Cut(id, "/")
		return c.Budget(ctx, scope, target, r)
	},
	put: func(c *client.Client, ctx context.Context, id string, req api.BudgetRequest, version int64) (api.Budget, error) {
		scope, target, _ := strings.Cut(id, "/")
		return c.PutBudget(ctx, scope, target, req, version)
	},
	remove: func(c *client.Client, ctx context.Context, id string, version int64) error {
		scope, target, _ := strings.Cut(id, "/")
		return c.DeleteBudget(ctx, scope, target, version)
	},
	version: func(b *api.Budget) int64 { return b.Version },
	begin: func(req *api.BudgetRequest, arg string) (err error) {
		req.Scope, req.Target, err = scopeTarget(arg)
		return err
	},
	flags: []edit[api.BudgetRequest]{
		option("daily-usd", "limit for a day", dollars, func(r *api.BudgetRequest) **money.Nano { return &r.DailyUSD }),
		option("weekly-usd", "limit for a week, which starts on Monday", dollars, func(r *api.BudgetRequest) **money.Nano { return &r.WeeklyUSD }),
		option("monthly-usd", "limit for a month", dollars, func(r *api.BudgetRequest) **money.Nano { return &r.MonthlyUSD }),
		option("rolling-usd", "limit for any --rolling-window", dollars, func(r *api.BudgetRequest) **money.Nano { return &r.RollingUSD }),
		set("rolling-window", "length of the window of --rolling-usd, such as 1h", span, func(r *api.BudgetRequest) *api.Duration { return &r.RollingWindow }),
		option("per-job-usd", "limit for all attempts of one job", dollars, func(r *api.BudgetRequest) **money.Nano { return &r.PerJobUSD }),
		option("default-reserve-usd", "reservation for an attempt of a job without an estimate (default: reserve_usd of the answer)", dollars, func(r *api.BudgetRequest) **money.Nano { return &r.DefaultReserveUSD }),
		set("on-exceed", "action for a job over the limit: hold (default), reject, throttle or alert_only", words, func(r *api.BudgetRequest) *string { return &r.OnExceed }),
		set("alerts", "percentages of a limit that send an event, such as 50,80", percents, func(r *api.BudgetRequest) *[]uint32 { return &r.Alerts }),
		set("timezone", "time zone of days, weeks and months, such as Europe/Berlin (default UTC)", words, func(r *api.BudgetRequest) *string { return &r.Timezone }),
	},
	columns: []column[api.Budget]{
		{"BUDGET", func(b api.Budget) string { return b.Scope + "/" + b.Target }},
		{"DAILY USD", func(b api.Budget) string { return maybe(b.DailyUSD, usd) }},
		{"WEEKLY USD", func(b api.Budget) string { return maybe(b.WeeklyUSD, usd) }},
		{"MONTHLY USD", func(b api.Budget) string { return maybe(b.MonthlyUSD, usd) }},
		{"ROLLING USD", rollingText},
		{"PER JOB USD", func(b api.Budget) string { return maybe(b.PerJobUSD, usd) }},
		{"RESERVED USD", func(b api.Budget) string { return usd(b.ReservedUSD) }},
		{"AVAILABLE USD", leastAvailable},
		{"ON EXCEED", func(b api.Budget) string { return b.OnExceed }},
	},
	details: []column[api.Budget]{
		{"RESERVE USD", func(b api.Budget) string { return usd(b.ReserveUSD) + " (" + b.ReserveFrom + ")" }},
		{"RAISE USD", func(b api.Budget) string {
			if b.RaiseUntil == nil {
				return ""
			}
			return usd(b.RaiseUSD) + " until " + clock(*b.RaiseUntil)
		}},
		{"ALERTS AT", alertsText},
		{"TIME ZONE", func(b api.Budget) string { return b.Timezone }},
		{"CREATED", func(b api.Budget) string { return clock(b.CreatedAt) }},
	},
	more: func(w io.Writer, b api.Budget) {
		if len(b.Windows) == 0 {
			return
		}
		fmt.Fprintln(w)
		showList(w, b.Windows, []column[api.BudgetWindow]{
			{"WINDOW", func(v api.BudgetWindow) string { return v.Window }},
			{"LIMIT USD", func(v api.BudgetWindow) string { return usd(v.LimitUSD) }},
			{"SETTLED USD", func(v api.BudgetWindow) string { return usd(v.SettledUSD) }},
			{"OVERRUN USD", func(v api.BudgetWindow) string { return usd(v.OverrunUSD) }},
			{"AVAILABLE USD", func(v api.BudgetWindow) string { return usd(v.AvailableUSD) }},
			{"START", func(v api.BudgetWindow) string { return clock(v.Start) }},
			{"END", func(v api.BudgetWindow) string { return clock(v.End) }},
		})
	},
}

func newBudget() *cobra.Command {
	cmd := budgets.command(newBudgetRaise)
	cmd.Aliases = []string{"budgets"}
	for _, sub := range cmd.Commands() {
		if strings.HasSuffix(sub.Use, budgets.arg) {
			takeTwoWords(sub)
		}
		sub.Flags().SetNormalizeFunc(inDollars)
	}
	return cmd
}

// takeTwoWords makes a command accept SCOPE TARGET as well as SCOPE/TARGET.
func takeTwoWords(cmd *cobra.Command) {
	run := cmd.RunE
	cmd.Args = cobra.RangeArgs(1, 2)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return run(cmd, []string{strings.Join(args, "/")})
	}
}

// inDollars accepts the flags for amounts without their unit too: --daily stands for --daily-usd.
func inDollars(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	switch name {
	case "daily", "weekly", "monthly", "rolling", "per-job", "default-reserve", "amount":
		name += "-usd"
	}
	return pflag.NormalizedName(name)
}

// scopeTarget splits a budget's name into its two halves.
func scopeTarget(name string) (scope, target string, err error) {
	scope, target, ok := strings.Cut(name, "/")
	if !ok || scope == "" || target == "" {
		return "", "", misusef("%q is not a budget; write SCOPE/TARGET, such as namespace/default, queue/emails or tag/team=red", name)
	}
	return scope, target, nil
}

var percents = form[[]uint32]{"n,n", func(text string) (all []uint32, err error) {
	for one := range strings.SplitSeq(text, ",") {
		n, err := readWhole(one)
		if err != nil || n < 0 || n > 1<<16 {
			return nil, fmt.Errorf("%q is not a percentage; write percentages like 50,80", one)
		}
		all = append(all, uint32(n))
	}
	return all, nil
}}

func newBudgetRaise(r *remote) *cobra.Command {
	var made edits[api.RaiseBudgetRequest]
	var cmd *cobra.Command
	cmd = on(&budgets, r, "raise", "Raise every limit of a budget temporarily, replacing an earlier raise", func(ctx context.Context, c *client.Client, id string) (api.Budget, error) {
		var req api.RaiseBudgetRequest
		if !cmd.Flags().Changed("amount-usd") {
			return api.Budget{}, misusef("--amount-usd is missing: give the additional amount, or 0 to end a raise")
		}
		made.apply(&req)
		scope, target, _ := strings.Cut(id, "/")
		return c.RaiseBudget(ctx, scope, target, req)
	}, budgets.show)
	made.bind(cmd,
		set("amount-usd", "additional amount; 0 ends a raise", dollars, func(r *api.RaiseBudgetRequest) *money.Nano {
			r.AmountUSD = new(money.Nano)
			return r.AmountUSD
		}),
		set("for", "duration of the raise, such as 1h", span, func(r *api.RaiseBudgetRequest) *api.Duration { return &r.For }),
		set("until", "end of the raise, such as 2026-12-01T00:00:00Z", instant, func(r *api.RaiseBudgetRequest) *api.Time { return &r.Until }),
	)
	return cmd
}

func rollingText(b api.Budget) string {
	if b.RollingUSD == nil {
		return ""
	}
	return usd(*b.RollingUSD) + " in " + maybe(b.RollingWindow, texts)
}

// leastAvailable returns the smallest amount that any of a budget's windows has left.
func leastAvailable(b api.Budget) string {
	if len(b.Windows) == 0 {
		return ""
	}
	least := b.Windows[0].AvailableUSD
	for _, v := range b.Windows {
		least = min(least, v.AvailableUSD)
	}
	return usd(least)
}

func alertsText(b api.Budget) string {
	var all []string
	for _, percent := range b.Alerts {
		all = append(all, count(percent)+"%")
	}
	return strings.Join(all, ", ")
}
