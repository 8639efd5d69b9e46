package server

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/router"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/view"
)

const (
	defaultSummaryPeriod = 24 * time.Hour
	// maxSummaryGroups is the maximum number of groups in a summary. If there are more, the summary has the
	// most expensive ones.
	maxSummaryGroups = 1000
)

var summaryQuery = append([]serve.Param{
	{Name: "period", Doc: "length of the period up to now; default 24h"},
	{Name: "group_by", Doc: "grouping: queue, model, provider, day or tag:NAME; default: totals only"},
	{Name: "from", Doc: "start (inclusive), instead of period"},
	{Name: "to", Doc: "end (exclusive); default now"},
	{Name: "timezone", Doc: "time zone of the days; default UTC"},
}, read...)

// interval is the time range of a summary: from is included, to is not.
type interval struct{ from, to time.Time }

// usageSummary sums the reported usage of a time range from the sums of the shards' views.
func (s *Server) usageSummary(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	var f convert.Faults
	query := r.URL.Query()
	all, zone := summarySpan(&f, query, time.Unix(0, q.shards.Home().NowNs()))
	by, days := groupBy(&f, query.Get("group_by"))
	if err := f.Err(); err != nil {
		return err
	}
	age, err := s.awaitView(w, r, &q, q.shards.All()...)
	if err != nil {
		return err
	}
	out := api.UsageSummary{AsOf: age.asOf(s.cfg.Now()), Period: api.DurationOf(all.to.Sub(all.from)), From: api.TimeOf(all.from), To: api.TimeOf(all.to), Groups: []api.SummaryGroup{}}
	parts := []interval{all}
	if days {
		parts = all.days(zone)
	}
	var totals view.Sums
	for _, part := range parts {
		sums, err := q.sumUsage(r, part, by)
		if err != nil {
			return err
		}
		totals.Add(&sums.Totals)
		if days && sums.Totals != (view.Sums{}) {
			out.Groups = append(out.Groups, api.SummaryGroup{Key: part.from.In(zone).Format(time.DateOnly), UsageSums: toSums(&sums.Totals)})
		}
		var keys []string
		keys, out.Truncated = sums.Dearest(maxSummaryGroups)
		for _, key := range keys {
			out.Groups = append(out.Groups, api.SummaryGroup{Key: key, UsageSums: toSums(sums.Groups[key])})
		}
	}
	out.Totals = toSums(&totals)
	return serve.WriteJSON(w, http.StatusOK, out)
}

// sumUsage adds up the sums of the shards for the queues that the caller may see.
func (q *request) sumUsage(r *http.Request, of interval, by view.GroupBy) (*view.UsageSums, error) {
	var covers func(queue string) bool
	if len(q.who.QueueScope) > 0 {
		covers = q.who.Covers
	}
	parts, err := router.Gather(q.shards, func(c *cell.Cell) (*view.UsageSums, error) {
		return c.View().SumUsage(r.Context(), of.from.UnixNano(), of.to.UnixNano(), by, covers)
	})
	if err != nil {
		return nil, err
	}
	for _, part := range parts[1:] {
		parts[0].Add(part)
	}
	return parts[0], nil
}

// summarySpan parses the time range of a request and the time zone of its days.
func summarySpan(f *convert.Faults, query url.Values, now time.Time) (interval, *time.Location) {
	moment := func(field string, absent time.Time) time.Time {
		at, ok, err := api.Time(query.Get(field)).Parse()
		if err != nil {
			f.Invalid(field, "%v", err)
		}
		if !ok {
			return absent
		}
		return at
	}
	period, err := api.Duration(query.Get("period")).Parse(defaultSummaryPeriod)
	switch {
	case err != nil:
		f.Invalid("period", "%v", err)
	case query.Get("period") != "" && query.Get("from") != "":
		f.Invalid("period", "goes not with from: give one of them")
	case period <= 0 || period > job.UsageKept:
		f.Invalid("period", "is %s; usage is kept for %s", period, job.UsageKept)
	}
	to := moment("to", now)
	known := !f.Any() // period and to are valid; the default of from and its check use both
	from := moment("from", to.Add(-period))
	if known && (!from.Before(to) || to.Sub(from) > job.UsageKept) {
		f.Invalid("from", "must lie before to, by at most %s", job.UsageKept)
	}
	zone, err := time.LoadLocation(query.Get("timezone"))
	if err != nil || query.Get("timezone") == "Local" {
		f.Invalid("timezone", "%s is unknown: name one like Europe/Berlin", text.Quote(query.Get("timezone")))
		zone = time.UTC
	}
	return interval{from, to}, zone
}

// groupBy parses the grouping of a request. For days it returns no group: each day is summed separately.
func groupBy(f *convert.Faults, word string) (by view.GroupBy, days bool) {
	tag, ok := strings.CutPrefix(word, "tag:")
	switch {
	case word == "":
	case word == "day":
		return by, true
	case word == "queue":
		by.By = view.ByQueue
	case word == "model":
		by.By = view.ByModel
	case word == "provider":
		by.By = view.ByProvider
	case ok && tag != "" && len(tag) <= job.MaxTagName:
		by.By, by.Tag = view.ByTag, tag
	default:
		f.Invalid("group_by", "is %s; use queue, model, provider, day or tag:NAME", text.Quote(word))
	}
	return by, false
}

// days splits the range into days of a time zone. The first and last day are cut to the range.
func (s interval) days(zone *time.Location) (days []interval) {
	for from := s.from; from.Before(s.to); {
		y, m, d := from.In(zone).Date()
		to := time.Date(y, m, d+1, 0, 0, 0, 0, zone)
		if !to.After(from) { // a day that begins twice
			to = from.Add(time.Hour)
		}
		if to.After(s.to) {
			to = s.to
		}
		days = append(days, interval{from, to})
		from = to
	}
	return days
}

func toSums(s *view.Sums) api.UsageSums {
	return api.UsageSums{
		Reports: s.Reports, Jobs: s.Jobs,
		InputTokens: s.Input, OutputTokens: s.Output, CacheCreationTokens: s.CacheCreation, CacheReadTokens: s.CacheRead,
		CostUSD: s.Cost, ReportedCostUSD: s.Reported, ComputedCostUSD: s.Computed,
		DifferenceUSD: s.Difference, UnpricedReports: s.Unpriced, RejectedReports: s.Rejected,
	}
}
