package duties

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// usageStride is how much older than they need to be usage rows get: they go by the
// day, not one by one.
const usageStride = 24 * time.Hour

// trimUsage removes usage rows that are older than they are kept, and the oldest where
// there are more than may be. Rows that a receiver has not acknowledged stay, however
// old or many they become: they are somebody's bill.
func trimUsage(ctx context.Context, d *Duties) (int64, error) {
	nowNs := d.cfg.NowNs()
	if nowNs < d.usage.next {
		return d.usage.next, nil
	}
	if !d.usage.dirty.Swap(false) && nowNs < d.usage.dueNs {
		return d.usage.dueNs, nil
	}
	d.usage.next = nowNs + int64(trimEvery)

	first, to, err := d.usageTrim(nowNs)
	if err != nil {
		return 0, err
	}
	if to == first {
		return d.usage.dueNs, nil
	}
	d.usage.dueNs = d.usage.next // to see when the rows that are left are due
	err = d.cfg.Propose(ctx, &op.TrimUsage{Meta: &op.Meta{Principal: "duty"}, FirstSeq: to})
	if err == nil {
		return d.usage.next, nil
	}
	d.usage.dirty.Store(true)
	if api.CodeOf(err) == api.StateConflict {
		// A leader before or after this one has removed more. The next look sees it.
		return d.usage.next, nil
	}
	return 0, err
}

// usageTrim is the number of the first usage row, and of the row that should be the
// first. It notes when the rows that are there are due.
func (d *Duties) usageTrim(nowNs int64) (first, to uint64, err error) {
	snap := d.cfg.Store.Snapshot()
	defer func() { err = errors.Join(err, snap.Close()) }()
	head := snap.Head()
	first, next := head.GetUsageFirstSeq(), head.GetUsageNextSeq()
	d.usage.dueNs = never
	if first == next {
		return first, first, nil
	}
	mayGo := next
	if d.cfg.UsageAcked != nil {
		mayGo = max(first, min(next, d.cfg.UsageAcked()+1))
	}
	oldestNs, _, err := snap.UsageClock(first)
	if err != nil {
		return 0, 0, fmt.Errorf("read the oldest usage row: %w", err)
	}
	to = usageTrimTo(first, next, d.cfg.UsageKeep)
	if dueNs := oldestNs + int64(d.cfg.UsageKept+usageStride); nowNs < dueNs {
		d.usage.dueNs = dueNs
	} else {
		d.usage.dueNs = nowNs + int64(usageStride) // where it waits for its receiver
		young, err := firstSince(snap, first, next, nowNs-int64(d.cfg.UsageKept))
		if err != nil {
			return 0, 0, fmt.Errorf("find the usage rows that are due: %w", err)
		}
		to = max(to, young)
	}
	return first, min(to, mayGo), nil
}

// usageTrimTo is the number the rows [first, next) should start at for their number
// alone, of which keep are kept.
func usageTrimTo(first, next, keep uint64) uint64 {
	if !tooLong(first, next, keep) {
		return first
	}
	return next - keep
}

// firstSince is the number of the first of the rows [first, next) that was reported at
// a time or later; next where none was. Rows are in the order of their times.
func firstSince(snap *state.Snapshot, first, next uint64, sinceNs int64) (uint64, error) {
	var failed error
	n := sort.Search(int(next-first), func(i int) bool {
		atNs, ok, err := snap.UsageClock(first + uint64(i))
		failed = errors.Join(failed, err)
		return !ok || atNs >= sinceNs
	})
	return first + uint64(n), failed
}
