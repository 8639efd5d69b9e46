package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

func newUsage() *cobra.Command {
	r := &remote{}
	var made edits[client.SummaryQuery]
	var of client.SummaryQuery
	cmd := &cobra.Command{
		Use: "usage", Short: "Show token usage and cost", Args: cobra.NoArgs,
		RunE: run(r, func(cmd *cobra.Command, c *client.Client, _ []string) (api.UsageSummary, error) {
			made.apply(&of)
			return c.UsageSummary(cmd.Context(), of, client.Read{})
		}, func(w io.Writer, s api.UsageSummary) { showUsage(w, s, of.GroupBy) }),
	}
	r.bind(cmd)
	made.bind(cmd,
		set("period", "length of the period up to now, such as 168h (default 24h)", span, func(q *client.SummaryQuery) *api.Duration { return &q.Period }),
		set("group-by", "grouping: queue, model, provider, day or tag:NAME", words, func(q *client.SummaryQuery) *string { return &q.GroupBy }),
		set("from", "start, instead of --period, such as 2026-11-01T00:00:00Z", instant, func(q *client.SummaryQuery) *api.Time { return &q.From }),
		set("to", "end (default now)", instant, func(q *client.SummaryQuery) *api.Time { return &q.To }),
		set("timezone", "time zone of the days, such as Europe/Berlin (default UTC)", words, func(q *client.SummaryQuery) *string { return &q.Timezone }),
	)
	return cmd
}

// showUsage shows the groups and their total.
func showUsage(w io.Writer, s api.UsageSummary, groupedBy string) {
	fmt.Fprintf(w, "from %s to %s\n\n", clock(s.From), clock(s.To))
	sums := s.Groups
	if groupedBy == "" {
		groupedBy = "all"
	}
	sums = append(sums[:len(sums):len(sums)], api.SummaryGroup{Key: "total", UsageSums: s.Totals})
	showList(w, sums, []column[api.SummaryGroup]{
		{strings.ToUpper(groupedBy), func(g api.SummaryGroup) string { return g.Key }},
		{"COST USD", func(g api.SummaryGroup) string { return usd(g.CostUSD) }},
		{"JOBS", func(g api.SummaryGroup) string { return count(g.Jobs) }},
		{"REPORTS", func(g api.SummaryGroup) string { return count(g.Reports) }},
		{"REJECTED", func(g api.SummaryGroup) string { return count(g.RejectedReports) }},
		{"UNPRICED", func(g api.SummaryGroup) string { return count(g.UnpricedReports) }},
		{"INPUT", func(g api.SummaryGroup) string { return count(g.InputTokens) }},
		{"OUTPUT", func(g api.SummaryGroup) string { return count(g.OutputTokens) }},
		{"CACHE CREATION", func(g api.SummaryGroup) string { return count(g.CacheCreationTokens) }},
		{"CACHE READ", func(g api.SummaryGroup) string { return count(g.CacheReadTokens) }},
		{"REPORTED USD", func(g api.SummaryGroup) string { return usd(g.ReportedCostUSD) }},
		{"COMPUTED USD", func(g api.SummaryGroup) string { return usd(g.ComputedCostUSD) }},
		{"DIFFERENCE USD", func(g api.SummaryGroup) string { return usd(g.DifferenceUSD) }},
	})
	if s.Truncated {
		fmt.Fprintln(w, "\nthe list of groups is truncated; the total counts all groups")
	}
}
