package server

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
)

// Bounds of the time range of a usage query.
const (
	DefaultUsagePeriod = 30 * 24 * time.Hour
	MaxUsagePeriod     = 10 * 366 * 24 * time.Hour
)

// groupings lists the values of ?group_by=.
var groupings = []string{"namespace", "queue", "model", "provider", "day"}

// usageParams lists the query parameters of a usage query.
var usageParams = []serve.Param{
	{Name: "from", Doc: "start (inclusive), an RFC 3339 time or a date, truncated to the hour; default 30 days before to"},
	{Name: "to", Doc: "end (exclusive), like from; default the end of this hour"},
	{Name: "group_by", Doc: "grouping: namespace, queue, model, provider or day; default: totals only"},
}

func (s *Server) orgUsage(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	org, err := s.org(q, tenancy.UsageRead)
	if err != nil {
		return err
	}
	return s.writeUsage(w, r, store.UsageQuery{Org: org.ID})
}

func (s *Server) namespaceUsage(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	ns, err := s.namespace(q, tenancy.UsageRead)
	if err != nil {
		return err
	}
	return s.writeUsage(w, r, store.UsageQuery{Org: ns.Org, Namespace: ns.ID})
}

func (s *Server) writeUsage(w http.ResponseWriter, r *http.Request, q store.UsageQuery) error {
	now := s.cfg.Now()
	if err := period(r, &q, now); err != nil {
		return err
	}
	// The claims are read before the sums, which then have at least the usage that the claims are about.
	complete, err := s.store.Completeness(r.Context(), q, now)
	if err != nil {
		return err
	}
	sums, err := s.store.Usage(r.Context(), q)
	if err != nil {
		return err
	}
	report := api.UsageReport{From: timeOf(q.FromNs), To: timeOf(q.ToNs), Totals: toTotals(sums.Total), Corrected: toTotals(sums.Corrected), Groups: []api.UsageGroup{},
		CompleteUntil: timeOf(complete.UntilNs), LateSources: []api.UsageSource{}}
	for _, late := range complete.Late {
		report.LateSources = append(report.LateSources, api.UsageSource{Namespace: late.Namespace, Stream: late.Stream, CompleteUntil: timeOf(late.UntilNs)})
	}
	for _, g := range sums.Groups {
		report.Groups = append(report.Groups, api.UsageGroup{Key: g.Key, UsageTotals: toTotals(g.Totals)})
	}
	if sums.AsOfNs != 0 {
		report.AsOf = new(timeOf(sums.AsOfNs))
	}
	return serve.WriteJSON(w, http.StatusOK, report)
}

// period reads the time range and the grouping of a usage query. It refuses with VALIDATION_ERROR a time outside of
// the years 1970 to 2200, a range that is empty or longer than MaxUsagePeriod, and an unknown grouping.
func period(r *http.Request, q *store.UsageQuery, now time.Time) error {
	query := r.URL.Query()
	var f faults
	read := func(field string, absent time.Time) time.Time {
		given := query.Get(field)
		if given == "" {
			return absent
		}
		at, err := time.Parse(time.DateOnly, given)
		if err != nil {
			at, _, err = api.Time(given).Parse()
		}
		if err != nil || at.Year() < 1970 || at.Year() > 2200 {
			f.add(field, "%s is not a time: write it like 2026-02-11 or 2026-02-11T10:00:00Z", text.Quote(given))
			return absent
		}
		return at.UTC().Truncate(time.Hour)
	}
	to := read("to", now.UTC().Truncate(time.Hour).Add(time.Hour))
	known := !f.Any() // from is checked against to
	from := read("from", to.Add(-DefaultUsagePeriod))
	switch {
	case !known:
	case !from.Before(to):
		f.add("from", "lies not before to, both cut to the hour")
	case to.Sub(from) > MaxUsagePeriod:
		f.add("from", "lies more than %d days before to", MaxUsagePeriod/(24*time.Hour))
	}
	q.GroupBy = query.Get("group_by")
	if q.GroupBy != "" && !slices.Contains(groupings, q.GroupBy) {
		f.add("group_by", "%s is none: use one of %s", text.Quote(q.GroupBy), strings.Join(groupings, ", "))
	}
	q.FromNs, q.ToNs = from.UnixNano(), to.UnixNano()
	return f.err()
}
