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

// usageStride is how much longer than Config.UsageKept and Config.AuditKept the oldest records stay, so that
// records are removed once a day and not one by one.
const usageStride = 24 * time.Hour

// trimUsage removes usage rows that are older than Config.UsageKept, and the oldest ones beyond
// Config.UsageKeep. Rows that the receiver has not acknowledged stay, however old or many they become,
// because somebody is billed by them.
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
	d.usage.dueNs = d.usage.next // to find out when the remaining rows are due
	err = d.cfg.Propose(ctx, &op.TrimUsage{Meta: &op.Meta{Principal: "duty"}, FirstSeq: to})
	if err == nil {
		return d.usage.next, nil
	}
	d.usage.dirty.Store(true)
	if api.CodeOf(err) == api.StateConflict {
		// An earlier or later leader has removed more. The next look sees it.
		return d.usage.next, nil
	}
	return 0, err
}

// usageTrim returns the number of the first usage row, and the number of the row that should be the first. It
// sets d.usage.dueNs to the time when the stored rows are due.
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
		d.usage.dueNs = nowNs + int64(usageStride) // if the rows wait for their receiver
		young, err := firstSince(snap, first, next, nowNs-int64(d.cfg.UsageKept))
		if err != nil {
			return 0, 0, fmt.Errorf("find the usage rows that are due: %w", err)
		}
		to = max(to, young)
	}
	return first, min(to, mayGo), nil
}

// usageTrimTo returns the number of the row that should be the first of [first, next) if only the number of
// rows counts: the newest `keep` rows stay, and some more within the slack.
func usageTrimTo(first, next, keep uint64) uint64 {
	if !tooLong(first, next, keep) {
		return first
	}
	return next - keep
}

// firstSince returns the number of the first of the rows [first, next) that was reported at sinceNs or later,
// or next if there is none. Rows are in the order of their times.
func firstSince(snap *state.Snapshot, first, next uint64, sinceNs int64) (uint64, error) {
	var failed error
	n := sort.Search(int(next-first), func(i int) bool {
		atNs, ok, err := snap.UsageClock(first + uint64(i))
		failed = errors.Join(failed, err)
		return !ok || atNs >= sinceNs
	})
	return first + uint64(n), failed
}
