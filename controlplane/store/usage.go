package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/tenancy"
)

// meterNames are the columns of the meters, in the order of meters and
// scanQuantities.
var meterNames = [...]string{
	"reports", "input_tokens", "output_tokens", "cache_creation_tokens", "cache_read_tokens", "cost_nano_usd",
	"requests", "request_bytes", "response_bytes",
}

var (
	meterColumns = strings.Join(meterNames[:], ", ")
	meterSums    = "COALESCE(SUM(" + strings.Join(meterNames[:], "), 0), COALESCE(SUM(") + "), 0)"
)

func meters(q billing.Quantities) []any {
	return []any{q.Reports, q.InputTokens, q.OutputTokens, q.CacheCreationTokens, q.CacheReadTokens, int64(q.Cost),
		q.Requests, q.RequestBytes, q.ResponseBytes}
}

// places are where to scan the meters to.
func places(q *billing.Quantities) []any {
	return []any{&q.Reports, &q.InputTokens, &q.OutputTokens, &q.CacheCreationTokens, &q.CacheReadTokens, (*int64)(&q.Cost),
		&q.Requests, &q.RequestBytes, &q.ResponseBytes}
}

func scanQuantities(rows *sql.Rows) (q billing.Quantities, err error) {
	err = rows.Scan(places(&q)...)
	return q, err
}

// lastUsage is how far a source's usage has been applied.
func lastUsage(q querier, source billing.Source) (uint64, error) {
	last, err := number(q, "SELECT last_seq FROM usage_sources WHERE namespace = ? AND stream = ? AND incarnation = ?",
		source.Namespace, source.Stream, source.Incarnation)
	return uint64(last), err
}

// LastUsage is how far a source's usage has been applied, 0 for not at all.
func (s *Store) LastUsage(ctx context.Context, source billing.Source) (uint64, error) {
	return read(ctx, s, func(r reader) (uint64, error) { return lastUsage(r, source) })
}

// UsageQuery asks for usage in [FromNs, ToNs) of an organisation, or of one of its
// namespaces.
type UsageQuery struct {
	Org          tenancy.OrgID
	Namespace    tenancy.NamespaceID // "" = all of the organisation's, deleted ones too
	FromNs, ToNs int64               // whole hours
	GroupBy      string              // "", or namespace, queue, model, provider, day
}

// UsageGroup is what was used under one key of the grouping; namespaces are keyed
// by id, days as 2006-01-02 in UTC.
type UsageGroup struct {
	Key string
	billing.Quantities
}

// dayNs are a day's nanoseconds.
const dayNs = int64(24 * time.Hour)

// usageKeys are the words of UsageQuery.GroupBy and the SQL of their keys.
var usageKeys = map[string]string{
	"": "0", "namespace": "namespace", "queue": "queue", "model": "model", "provider": "provider",
	"day": fmt.Sprintf("hour_ns / %d", dayNs),
}

// validate says what is wrong with a query.
func (q UsageQuery) validate() error {
	var p problems
	if q.Org == "" && q.Namespace == "" {
		p.add("org", fmt.Errorf("is missing"))
	}
	for field, ns := range map[string]int64{"from": q.FromNs, "to": q.ToNs} {
		if ns < 0 || ns%int64(time.Hour) != 0 {
			p.add(field, fmt.Errorf("is no whole hour: leave out minutes and seconds"))
		}
	}
	if q.ToNs < q.FromNs {
		p.add("to", fmt.Errorf("lies before from"))
	}
	if _, ok := usageKeys[q.GroupBy]; !ok {
		p.add("group_by", fmt.Errorf("is %q: use namespace, queue, model, provider or day", q.GroupBy))
	}
	// The two times come from a map.
	slices.SortStableFunc(p.list, func(a, b api.FieldError) int { return strings.Compare(a.Field, b.Field) })
	return p.err()
}

// Usage sums the ledger; groups are ordered by key. Without GroupBy there are none.
func (s *Store) Usage(ctx context.Context, q UsageQuery) (total billing.Quantities, groups []UsageGroup, err error) {
	if err := q.validate(); err != nil {
		return total, nil, err
	}
	groups, err = read(ctx, s, func(r reader) ([]UsageGroup, error) { return usage(r, q) })
	if err != nil {
		return total, nil, err
	}
	for _, g := range groups {
		if err := total.Add(g.Quantities); err != nil {
			return billing.Quantities{}, nil, tooMuch(err)
		}
	}
	if q.GroupBy == "" {
		groups = nil
	}
	return total, groups, nil
}

func usage(r querier, q UsageQuery) ([]UsageGroup, error) {
	namespaces, args, err := usageOf(r, q)
	if err != nil {
		return nil, err
	}
	scan := func(rows *sql.Rows) (g UsageGroup, err error) {
		if q.GroupBy != "day" {
			err = rows.Scan(append([]any{&g.Key}, places(&g.Quantities)...)...)
			return g, err
		}
		var day int64
		err = rows.Scan(append([]any{&day}, places(&g.Quantities)...)...)
		g.Key = time.Unix(0, day*dayNs).UTC().Format(time.DateOnly)
		return g, err
	}
	groups, err := list(r, scan, "SELECT "+usageKeys[q.GroupBy]+" AS key, "+meterSums+" FROM usage_hourly WHERE namespace IN ("+namespaces+
		") AND hour_ns >= ? AND hour_ns < ? GROUP BY 1 ORDER BY 1", append(args, q.FromNs, q.ToNs)...)
	// SQLite adds integers exactly or not at all.
	if err != nil && strings.Contains(err.Error(), "integer overflow") {
		err = tooMuch(err)
	}
	return groups, err
}

// usageOf is the SQL of the namespaces that a query is about.
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

func tooMuch(cause error) error {
	return api.Wrap(cause, api.ValidationError, "the sum of the usage does not fit: ask for a shorter time")
}
