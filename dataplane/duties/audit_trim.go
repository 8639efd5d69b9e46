package duties

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/op"
)

// trimAudit removes audit records that are older than Config.AuditKept, and the oldest ones beyond
// Config.AuditKeep. Like trimUsage, it removes old records once a day and not one by one.
func trimAudit(ctx context.Context, d *Duties) (int64, error) {
	nowNs := d.cfg.NowNs()
	if nowNs < d.audit.next {
		return d.audit.next, nil
	}
	if !d.audit.dirty.Swap(false) && nowNs < d.audit.dueNs {
		return d.audit.dueNs, nil
	}
	d.audit.next = nowNs + int64(trimEvery)

	first, to, err := d.auditTrim(nowNs)
	if err != nil {
		return 0, err
	}
	if to == first {
		return d.audit.dueNs, nil
	}
	d.audit.dueNs = d.audit.next // to find out when the remaining records are due
	err = d.cfg.Propose(ctx, &op.TrimAudit{Meta: &op.Meta{Principal: "duty"}, FirstSeq: to})
	if err == nil {
		return d.audit.next, nil
	}
	d.audit.dirty.Store(true)
	if api.CodeOf(err) == api.StateConflict {
		// An earlier or later leader has removed more. The next look sees it.
		return d.audit.next, nil
	}
	return 0, err
}

// auditTrim returns the number of the first audit record, and the number of the record that should be the
// first. It sets d.audit.dueNs to the time at which the stored records are due.
func (d *Duties) auditTrim(nowNs int64) (first, to uint64, err error) {
	snap := d.cfg.Store.Snapshot()
	defer func() { err = errors.Join(err, snap.Close()) }()
	first, next := snap.Head().GetAudit().Records()
	d.audit.dueNs = never
	if first == next {
		return first, first, nil
	}
	to = first
	if tooLong(first, next, d.cfg.AuditKeep) {
		to = next - d.cfg.AuditKeep
	}
	oldest, err := snap.Audit(first)
	if err == nil && oldest == nil {
		err = errors.New("there is none")
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read audit record %d, the oldest: %w", first, err)
	}
	if dueNs := oldest.ClockNs + int64(d.cfg.AuditKept+usageStride); nowNs < dueNs {
		d.audit.dueNs = dueNs
		return first, to, nil
	}
	var failed error
	young := sort.Search(int(next-first), func(i int) bool {
		r, err := snap.Audit(first + uint64(i))
		failed = errors.Join(failed, err)
		return r == nil || r.ClockNs >= nowNs-int64(d.cfg.AuditKept)
	})
	if failed != nil {
		return 0, 0, fmt.Errorf("find the audit records that are due: %w", failed)
	}
	return first, max(to, first+uint64(young)), nil
}
