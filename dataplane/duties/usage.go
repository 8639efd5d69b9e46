package duties

import (
	"context"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/op"
)

// trimUsage removes the usage rows nobody is owed. Rows that a receiver has not
// acknowledged stay, however many they become: they are somebody's bill.
func trimUsage(ctx context.Context, d *Duties) (int64, error) {
	nowNs := d.cfg.NowNs()
	if nowNs < d.usage.next {
		return d.usage.next, nil
	}
	if !d.usage.dirty.Swap(false) {
		return never, nil
	}
	d.usage.next = nowNs + int64(trimEvery)

	head := d.cfg.Store.Head()
	first, end := head.GetUsageFirstSeq(), head.GetUsageNextSeq()
	if d.cfg.UsageAcked != nil {
		end = min(end, d.cfg.UsageAcked()+1)
	}
	to := usageTrimTo(first, end, d.cfg.UsageKeep)
	if to == first {
		return d.usage.next, nil
	}
	err := d.cfg.Propose(ctx, &op.TrimUsage{Meta: &op.Meta{Principal: "duty"}, FirstSeq: to})
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

// usageTrimTo is the number the rows [first, ...) should start at, where those
// before end may go and keep of them stay.
func usageTrimTo(first, end, keep uint64) uint64 {
	if end <= first || !tooLong(first, end, keep) {
		return first
	}
	return end - keep
}
