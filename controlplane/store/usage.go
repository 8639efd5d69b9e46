package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/tenancy"
)

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

// usageKeys maps the values of UsageQuery.GroupBy to the SQL of their keys.
var usageKeys = map[string]string{
	"": "0", "namespace": "namespace", "queue": "queue", "model": "model", "provider": "provider",
	"day": "date(hour_ns / 1000000000, 'unixepoch')",
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
	// Corrected sums the corrections that Total contains. It is negative for a meter of which more was taken away.
	Corrected billing.Totals
	// AsOfNs is the time of the last frame of the namespaces that was applied or set aside, or of their last correction,
	// whatever its hours; 0 = never.
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
	if out.AsOfNs, err = usageAsOf(r, namespaces, args); err != nil {
		return out, err
	}
	// SQLite refuses a sum of more than 63 bits, so that it sums the halves of the quantities.
	args = append(args, q.FromNs, q.ToNs)
	sums, err := list(r, scanUsageSum, "SELECT "+usageKeys[q.GroupBy]+" AS key, meter, SUM(quantity >> 31), SUM(quantity & 2147483647) FROM usage_hourly WHERE namespace IN ("+
		namespaces+") AND hour_ns >= ? AND hour_ns < ? GROUP BY 1, 2 ORDER BY 1, 2", args...)
	if err != nil {
		return out, err
	}
	for _, sum := range sums {
		if !sum.meter.Known() {
			return out, fmt.Errorf("the ledger has usage of meter %d, which this version does not know", sum.meter)
		}
		if n := len(out.Groups); n == 0 || out.Groups[n-1].Key != sum.key {
			out.Groups = append(out.Groups, UsageGroup{Key: sum.key})
		}
		out.Groups[len(out.Groups)-1].Totals[sum.meter] = sum.quantity
	}
	for _, g := range out.Groups {
		out.Total.Add(g.Totals)
	}
	if q.GroupBy == "" {
		out.Groups = nil
	}
	out.Corrected, err = corrected(r, namespaces, args)
	return out, err
}

// usageAsOf returns the time of the last frame or correction of namespaces, given as the SQL and arguments of usageOf; 0 = none.
func usageAsOf(r querier, namespaces string, args []any) (int64, error) {
	return number(r, "SELECT COALESCE(MAX(applied_ns), 0) FROM usage_sources WHERE namespace IN ("+namespaces+")", args...)
}

// usageSum is the sum of one meter under one key.
type usageSum struct {
	key      string
	meter    billing.Meter
	quantity money.Count
}

func scanUsageSum(rows *sql.Rows) (s usageSum, err error) {
	var high, low int64
	err = rows.Scan(&s.key, &s.meter, &high, &low)
	s.quantity = money.CountOfHalves(high, low)
	return s, err
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
