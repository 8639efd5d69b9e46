package view

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"sort"
	"strings"

	"github.com/corvo/corvo/billing/money"
)

const (
	// summaryRows is the number of usage rows that one query sums. Each query has its own time limit and lets
	// other readers in between, so a summary of any length is many short queries.
	summaryRows = 20_000
	// maxSummaryKeys limits the number of groups in memory during a summary.
	maxSummaryKeys = 100_000
)

// GroupBy is the property by which usage is grouped. The zero GroupBy does not group.
type GroupBy struct {
	By  GroupColumn
	Tag string // the tag's name, for ByTag
}

// GroupColumn is a property of usage.
type GroupColumn uint8

// The properties by which usage is grouped.
const (
	ByNothing GroupColumn = iota
	ByQueue
	ByModel
	ByProvider
	ByTag
)

// Sums are sums of usage. Each is exact, however large. Reports counts reports, Jobs the reports that are the
// first of their job, and Unpriced the reports whose model had no known price.
type Sums struct {
	Reports, Jobs, Unpriced                 int64
	Rejected                                int64 // reports that are set aside, and counted in no other sum
	Input, Output, CacheCreation, CacheRead money.Count
	Cost, Reported, Computed, Difference    money.Total
}

// wide returns the sums of quantities in a fixed order.
func (s *Sums) wide() [halves]*money.Count {
	return [...]*money.Count{&s.Input, &s.Output, &s.CacheCreation, &s.CacheRead,
		(*money.Count)(&s.Cost), (*money.Count)(&s.Reported), (*money.Count)(&s.Computed), (*money.Count)(&s.Difference)}
}

// Add adds other.
func (s *Sums) Add(other *Sums) {
	s.Reports += other.Reports
	s.Jobs += other.Jobs
	s.Unpriced += other.Unpriced
	s.Rejected += other.Rejected
	more := other.wide()
	for i, f := range s.wide() {
		*f = f.Add(*more[i])
	}
}

// UsageSums are the sums of a period and of each of its groups. Truncated reports that there are groups whose
// usage is in Totals only.
type UsageSums struct {
	Totals    Sums
	Groups    map[string]*Sums
	Truncated bool
}

// Add adds other.
func (u *UsageSums) Add(other *UsageSums) {
	u.Truncated = u.Truncated || other.Truncated
	u.Totals.Add(&other.Totals)
	for key, sums := range other.Groups {
		u.group(key, sums)
	}
}

func (u *UsageSums) group(key string, sums *Sums) {
	of := u.Groups[key]
	if of == nil {
		if len(u.Groups) == maxSummaryKeys {
			u.Truncated = true
			return
		}
		of = &Sums{}
		u.Groups[key] = of
	}
	of.Add(sums)
}

// Dearest returns the keys of at most so many groups, the dearest first. truncated reports that there are
// more groups.
func (u *UsageSums) Dearest(most int) (keys []string, truncated bool) {
	keys = make([]string, 0, len(u.Groups))
	for key := range u.Groups {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(u.Groups[b].Cost.Compare(u.Groups[a].Cost), strings.Compare(a, b))
	})
	if len(keys) > most {
		return keys[:most], true
	}
	return keys, u.Truncated
}

// SumUsage sums the usage reported from fromNs on and before toNs, of the queues that covers accepts, or of
// all queues if covers is nil. It runs many queries, each as of the last flush, so later rows may be as of a
// later flush.
func (v *View) SumUsage(ctx context.Context, fromNs, toNs int64, by GroupBy, covers func(queue string) bool) (*UsageSums, error) {
	all := &UsageSums{Groups: map[string]*Sums{}}
	var from, to int64
	err := v.read(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		if from, err = firstUsage(ctx, tx, fromNs); err == nil {
			to, err = firstUsage(ctx, tx, toNs)
		}
		return err
	})
	for ; err == nil && from < to; from += summaryRows {
		err = v.read(ctx, func(ctx context.Context, tx *sql.Tx) error {
			return all.sum(ctx, tx, from, min(from+summaryRows, to), by, covers)
		})
	}
	if err != nil {
		return nil, err
	}
	return all, nil
}

// firstUsage returns the number of the first row reported at atNs or later, or a number that no row has
// reached. It is a binary search, because times rise with the numbers.
func firstUsage(ctx context.Context, tx *sql.Tx, atNs int64) (int64, error) {
	var low, high int64
	if err := tx.QueryRowContext(ctx, "SELECT coalesce(min(seq), 1), coalesce(max(seq), 0) FROM usage").Scan(&low, &high); err != nil {
		return 0, err
	}
	var failed error
	n := sort.Search(int(high-low+1), func(i int) bool {
		var clockNs int64
		if failed == nil {
			failed = tx.QueryRowContext(ctx, "SELECT clock_ns FROM usage WHERE seq >= ? ORDER BY seq LIMIT 1", low+int64(i)).Scan(&clockNs)
		}
		return failed != nil || clockNs >= atNs
	})
	return low + int64(n), failed
}

// keySQL is the expression by which rows are grouped.
var keySQL = map[GroupColumn]string{
	ByNothing:  "''",
	ByQueue:    "queue",
	ByModel:    "coalesce(model, '')",
	ByProvider: "coalesce(provider, '')",
	ByTag:      "coalesce((SELECT value FROM json_each(tags) WHERE key = ?), '')",
}

// Quantities are summed in halves, because SQLite refuses a sum of more than 63 bits. Reports that are set
// aside are only counted.
const sumUsageSQL = `queue, count(*), sum(first), sum(unpriced), rejected IS NOT NULL,
	sum(input_tokens >> 31), sum(input_tokens & 2147483647),
	sum(output_tokens >> 31), sum(output_tokens & 2147483647),
	sum(cache_creation_tokens >> 31), sum(cache_creation_tokens & 2147483647),
	sum(cache_read_tokens >> 31), sum(cache_read_tokens & 2147483647),
	sum(cost_nano_usd >> 31), sum(cost_nano_usd & 2147483647),
	sum(coalesce(reported_nano_usd, 0) >> 31), sum(coalesce(reported_nano_usd, 0) & 2147483647),
	sum(coalesce(computed_nano_usd, 0) >> 31), sum(coalesce(computed_nano_usd, 0) & 2147483647),
	sum(coalesce(reported_nano_usd - computed_nano_usd, 0) >> 31), sum(coalesce(reported_nano_usd - computed_nano_usd, 0) & 2147483647)
FROM usage WHERE seq >= ? AND seq < ? GROUP BY 1, 2, rejected IS NOT NULL`

// halves is the number of sums in halves: the ones in Sums.wide.
const halves = 8

// sum adds the rows numbered [from, to).
func (u *UsageSums) sum(ctx context.Context, tx *sql.Tx, from, to int64, by GroupBy, covers func(queue string) bool) error {
	args := []any{from, to}
	if by.By == ByTag {
		args = []any{by.Tag, from, to}
	}
	return each(ctx, tx, func(rows *sql.Rows) error {
		var key, queue string
		var s Sums
		var aside bool
		var high, low [halves]int64
		into := []any{&key, &queue, &s.Reports, &s.Jobs, &s.Unpriced, &aside}
		for i := range halves {
			into = append(into, &high[i], &low[i])
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if covers != nil && !covers(queue) {
			return nil
		}
		if aside {
			s = Sums{Rejected: s.Reports}
		} else {
			for i, f := range s.wide() {
				*f = money.CountOfHalves(high[i], low[i])
			}
		}
		u.Totals.Add(&s)
		if by.By != ByNothing {
			u.group(key, &s)
		}
		return nil
	}, "SELECT "+keySQL[by.By]+", "+sumUsageSQL, args...)
}
