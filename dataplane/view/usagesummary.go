package view

import (
	"cmp"
	"context"
	"database/sql"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing/money"
)

const (
	// summaryRows is how many usage rows one query sums. Each has its own time limit,
	// and lets others read in between: a summary of any length is many short queries.
	summaryRows = 20_000
	// maxSummaryKeys bounds the groups that are remembered while they are summed.
	maxSummaryKeys = 100_000
)

// GroupBy is what usage is grouped by. The zero GroupBy does not group.
type GroupBy struct {
	By  GroupColumn
	Tag string // the tag's name, for ByTag
}

// GroupColumn is a property of usage.
type GroupColumn uint8

// The properties usage is grouped by.
const (
	ByNothing GroupColumn = iota
	ByQueue
	ByModel
	ByProvider
	ByTag
)

// Sums are what was used. Each is exact.
type Sums struct {
	Reports, Jobs                           int64
	Input, Output, CacheCreation, CacheRead int64
	Cost, Reported, Computed, Difference    int64
	Unpriced                                int64
}

// fields are the sums in a fixed order.
func (s *Sums) fields() [11]*int64 {
	return [...]*int64{&s.Reports, &s.Jobs, &s.Unpriced, &s.Input, &s.Output, &s.CacheCreation, &s.CacheRead,
		&s.Cost, &s.Reported, &s.Computed, &s.Difference}
}

// Add adds other. It refuses a sum that does not fit.
func (s *Sums) Add(other *Sums) error {
	more := other.fields()
	for i, f := range s.fields() {
		n := *more[i]
		if n > 0 && *f > math.MaxInt64-n || n < 0 && *f < math.MinInt64-n {
			return errTooMuch()
		}
		*f += n
	}
	return nil
}

// UsageSums are the sums of a period, and of each group of it. Truncated says that
// there are groups which are in Totals only.
type UsageSums struct {
	Totals    Sums
	Groups    map[string]*Sums
	Truncated bool
}

// Add adds other.
func (u *UsageSums) Add(other *UsageSums) error {
	u.Truncated = u.Truncated || other.Truncated
	if err := u.Totals.Add(&other.Totals); err != nil {
		return err
	}
	for key, sums := range other.Groups {
		if err := u.group(key, sums); err != nil {
			return err
		}
	}
	return nil
}

func (u *UsageSums) group(key string, sums *Sums) error {
	of := u.Groups[key]
	if of == nil {
		if len(u.Groups) == maxSummaryKeys {
			u.Truncated = true
			return nil
		}
		of = &Sums{}
		u.Groups[key] = of
	}
	return of.Add(sums)
}

// Dearest are the keys of the groups, the dearest first, most of them at most.
func (u *UsageSums) Dearest(most int) (keys []string, truncated bool) {
	keys = make([]string, 0, len(u.Groups))
	for key := range u.Groups {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(u.Groups[b].Cost, u.Groups[a].Cost), strings.Compare(a, b))
	})
	if len(keys) > most {
		return keys[:most], true
	}
	return keys, u.Truncated
}

// SumUsage sums what was reported from a time on and before another, of the queues
// that covers says; nil is all. It is as of the last flush, which may be a later one
// for later rows.
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

// firstUsage is the number of the first row reported at a time or later, or one that
// no row has reached. Times rise with the numbers, so it is looked for by halves.
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

// keySQL is what rows are grouped by.
var keySQL = map[GroupColumn]string{
	ByNothing:  "''",
	ByQueue:    "queue",
	ByModel:    "coalesce(model, '')",
	ByProvider: "coalesce(provider, '')",
	ByTag:      "coalesce((SELECT value FROM json_each(tags) WHERE key = ?), '')",
}

// Quantities are summed in halves: SQLite refuses a sum of more than 63 bits, and one
// absurd report must not make the whole period unreadable.
const sumUsageSQL = `queue, count(*), sum(first), sum(unpriced),
	sum(input_tokens >> 31), sum(input_tokens & 2147483647),
	sum(output_tokens >> 31), sum(output_tokens & 2147483647),
	sum(cache_creation_tokens >> 31), sum(cache_creation_tokens & 2147483647),
	sum(cache_read_tokens >> 31), sum(cache_read_tokens & 2147483647),
	sum(cost_nano_usd >> 31), sum(cost_nano_usd & 2147483647),
	sum(coalesce(reported_nano_usd, 0) >> 31), sum(coalesce(reported_nano_usd, 0) & 2147483647),
	sum(coalesce(computed_nano_usd, 0) >> 31), sum(coalesce(computed_nano_usd, 0) & 2147483647),
	sum(coalesce(reported_nano_usd - computed_nano_usd, 0) >> 31), sum(coalesce(reported_nano_usd - computed_nano_usd, 0) & 2147483647)
FROM usage WHERE seq >= ? AND seq < ? GROUP BY 1, 2`

// halves is how many of the sums come in halves: the last ones of Sums.fields.
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
		var high, low [halves]int64
		into := []any{&key, &queue, &s.Reports, &s.Jobs, &s.Unpriced}
		for i := range halves {
			into = append(into, &high[i], &low[i])
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if covers != nil && !covers(queue) {
			return nil
		}
		fields := s.fields()
		for i := range halves {
			sum, err := join(high[i], low[i])
			if err != nil {
				return err
			}
			*fields[len(fields)-halves+i] = sum
		}
		if err := u.Totals.Add(&s); err != nil || by.By == ByNothing {
			return err
		}
		return u.group(key, &s)
	}, "SELECT "+keySQL[by.By]+", "+sumUsageSQL, args...)
}

// join puts the halves of a sum together.
func join(high, low int64) (int64, error) {
	const half = 1 << 31
	if high > math.MaxInt64/half || high < math.MinInt64/half {
		return 0, errTooMuch()
	}
	sum, err := money.Nano(high * half).Add(money.Nano(low))
	if err != nil {
		return 0, errTooMuch()
	}
	return int64(sum), nil
}

func errTooMuch() error {
	return api.Errorf(api.ValidationError, "the usage of this period is more than can be counted: ask for a shorter one")
}
