package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/tenancy"
)

// meterNames are the columns of the meters, in the order of meters, places and billing.Totals.
var meterNames = [...]string{
	"reports", "rejected_reports", "input_tokens", "output_tokens", "cache_creation_tokens", "cache_read_tokens", "cost_nano_usd",
	"requests", "request_bytes", "response_bytes",
}

var (
	meterColumns = strings.Join(meterNames[:], ", ")
	meterSums    = sums(meterNames[:])
)

// sums returns the SQL that sums columns, each in two halves for scanTotals, because SQLite refuses a sum of
// more than 63 bits.
func sums(columns []string) string {
	halves := make([]string, len(columns))
	for i, c := range columns {
		halves[i] = fmt.Sprintf("COALESCE(SUM(%[1]s >> 31), 0), COALESCE(SUM(%[1]s & 2147483647), 0)", c)
	}
	return strings.Join(halves, ", ")
}

// scanTotals reads a key and the sums that the SQL of sums selects.
func scanTotals(rows *sql.Rows, key any) (t billing.Totals, err error) {
	var high, low [len(meterNames)]int64
	into := []any{key}
	for i := range meterNames {
		into = append(into, &high[i], &low[i])
	}
	if err := rows.Scan(into...); err != nil {
		return t, err
	}
	for i, m := range t.Meters() {
		*m = money.CountOfHalves(high[i], low[i])
	}
	return t, nil
}

func meters(q billing.Quantities) []any {
	return []any{q.Reports, q.RejectedReports, q.InputTokens, q.OutputTokens, q.CacheCreationTokens, q.CacheReadTokens, int64(q.Cost),
		q.Requests, q.RequestBytes, q.ResponseBytes}
}

// places returns the addresses of the meters, for Scan.
func places(q *billing.Quantities) []any {
	return []any{&q.Reports, &q.RejectedReports, &q.InputTokens, &q.OutputTokens, &q.CacheCreationTokens, &q.CacheReadTokens, (*int64)(&q.Cost),
		&q.Requests, &q.RequestBytes, &q.ResponseBytes}
}

// lastUsage returns the last number of a source's usage that was applied or set aside; 0 = none.
func lastUsage(q querier, source billing.Source) (uint64, error) {
	last, err := number(q, "SELECT last_seq FROM usage_sources WHERE namespace = ? AND stream = ? AND incarnation = ?",
		source.Namespace, source.Stream, source.Incarnation)
	return uint64(last), err
}

// LastUsage returns the last number of a source's usage that was applied or set aside; 0 = none.
func (s *Store) LastUsage(ctx context.Context, source billing.Source) (uint64, error) {
	return read(ctx, s, func(r reader) (uint64, error) { return lastUsage(r, source) })
}

// UsageQuery asks for the usage of an organisation, or of one of its namespaces, in [FromNs, ToNs). Org may
// be "" if Namespace is set.
type UsageQuery struct {
	Org          tenancy.OrgID
	Namespace    tenancy.NamespaceID // "" = all of the organisation's, deleted ones too
	FromNs, ToNs int64               // whole hours
	GroupBy      string              // "", or namespace, queue, model, provider, day
}

// UsageGroup is the usage under one key of the grouping. Namespaces are keyed by id, days by 2006-01-02 in
// UTC.
type UsageGroup struct {
	Key string
	billing.Totals
}

// dayNs is a day in nanoseconds.
const dayNs = int64(24 * time.Hour)

// usageKeys maps the values of UsageQuery.GroupBy to the SQL of their keys.
var usageKeys = map[string]string{
	"": "0", "namespace": "namespace", "queue": "queue", "model": "model", "provider": "provider",
	"day": fmt.Sprintf("hour_ns / %d", dayNs),
}

// validate reports the faults of a query.
func (q UsageQuery) validate() error {
	var p problems
	if q.Org == "" && q.Namespace == "" {
		p.add("org", fmt.Errorf("is missing"))
	}
	for field, ns := range map[string]int64{"from": q.FromNs, "to": q.ToNs} {
		if ns < 0 || ns%int64(time.Hour) != 0 {
			p.add(field, fmt.Errorf("is not a whole hour: leave out minutes and seconds"))
		}
	}
	if q.ToNs < q.FromNs {
		p.add("to", fmt.Errorf("lies before from"))
	}
	if _, ok := usageKeys[q.GroupBy]; !ok {
		p.add("group_by", fmt.Errorf("is %q: use namespace, queue, model, provider or day", q.GroupBy))
	}
	return p.err()
}

// UsageSums is the result of a UsageQuery.
type UsageSums struct {
	Total  billing.Totals
	Groups []UsageGroup // ordered by key; none without GroupBy
	// AsOfNs is the time of the last frame of the namespaces that was applied or set aside, whatever its
	// hours; 0 = never.
	AsOfNs int64
}

// Usage sums the ledger. It refuses an invalid query with VALIDATION_ERROR, and an organisation or namespace
// that does not exist with NOT_FOUND.
func (s *Store) Usage(ctx context.Context, q UsageQuery) (UsageSums, error) {
	if err := q.validate(); err != nil {
		return UsageSums{}, err
	}
	return read(ctx, s, func(r reader) (UsageSums, error) { return usage(r, q) })
}

func usage(r querier, q UsageQuery) (out UsageSums, err error) {
	namespaces, args, err := usageOf(r, q)
	if err != nil {
		return out, err
	}
	out.AsOfNs, err = number(r, "SELECT COALESCE(MAX(applied_ns), 0) FROM usage_sources WHERE namespace IN ("+namespaces+")", args...)
	if err != nil {
		return out, err
	}
	scan := func(rows *sql.Rows) (g UsageGroup, err error) {
		if q.GroupBy != "day" {
			g.Totals, err = scanTotals(rows, &g.Key)
			return g, err
		}
		var day int64
		g.Totals, err = scanTotals(rows, &day)
		g.Key = time.Unix(0, day*dayNs).UTC().Format(time.DateOnly)
		return g, err
	}
	out.Groups, err = list(r, scan, "SELECT "+usageKeys[q.GroupBy]+" AS key, "+meterSums+" FROM usage_hourly WHERE namespace IN ("+namespaces+
		") AND hour_ns >= ? AND hour_ns < ? GROUP BY 1 ORDER BY 1", append(args, q.FromNs, q.ToNs)...)
	for _, g := range out.Groups {
		out.Total.Add(g.Totals)
	}
	if q.GroupBy == "" {
		out.Groups = nil
	}
	return out, err
}

// usageOf returns the SQL of the namespaces that a query covers. It refuses an unknown organisation or
// namespace.
func usageOf(r querier, q UsageQuery) (text string, args []any, err error) {
	if q.Namespace == "" {
		known, err := number(r, "SELECT COUNT(*) FROM orgs WHERE id = ?", string(q.Org))
		if err == nil && known == 0 {
			err = noOrg(string(q.Org))
		}
		return "SELECT id FROM namespaces WHERE org = ?", []any{string(q.Org)}, err
	}
	known, err := number(r, "SELECT COUNT(*) FROM namespaces WHERE id = ?1 AND (org = ?2 OR ?2 = '')", string(q.Namespace), string(q.Org))
	if err == nil && known == 0 {
		err = noNamespace(string(q.Namespace))
	}
	return "?", []any{string(q.Namespace)}, err
}
