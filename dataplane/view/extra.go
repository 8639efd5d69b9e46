package view

import (
	"database/sql"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// extraColumns are what extraRow reads of extra x.
const extraColumns = `x.unique_key, x.unique_period_ms, x.unique_whole_period, x.unique_expires_ns, x.batch_id, x.parent_id,
	x.chain_id, x.chain_step, x.chain_config, x.schedule_id, x.hold_reason, x.expire_after_ms, x.expire_ns,
	x.cancelling, x.cancelled_ns, x.blocked_by, x.dependency_policy, x.attempt_base, x.jitter_percent`

const putExtraSQL = `
INSERT OR REPLACE INTO extra (number, unique_key, unique_period_ms, unique_whole_period, unique_expires_ns, batch_id, parent_id,
	chain_id, chain_step, chain_config, schedule_id, hold_reason, expire_after_ms, expire_ns,
	cancelling, cancelled_ns, blocked_by, dependency_policy, attempt_base, jitter_percent)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// extra writes what few jobs have; some says whether this one has some of it. It
// writes no row where there would be nothing in it, and drops none: who knows that
// there was one calls forgetExtras, once for many jobs.
func (w *writer) extra(r state.Reader, j *job.Job, id job.ID) (some bool, err error) {
	values, err := extraValues(r, j, id)
	if err != nil {
		return false, err
	}
	for _, v := range values[1:] {
		some = some || v != nil
	}
	if !some {
		return false, nil
	}
	return true, w.exec(w.putExtra, values[:]...)
}

// extraValues are a job's row in extra. A value that says nothing is NULL, so that
// a row that says nothing can be told.
func extraValues(r state.Reader, j *job.Job, id job.ID) (values [20]any, err error) {
	var ids [4]any
	for i, x := range [...]struct {
		prefix string
		id     []byte
	}{
		{batchPrefix, j.Batch.GetBatchId()}, {job.IDPrefix, j.ParentId}, {chainPrefix, j.Chain.GetChainId()}, {schedulePrefix, j.ScheduleId},
	} {
		if ids[i], err = idText(x.prefix, x.id); err != nil {
			return values, err
		}
	}
	var chain, step any
	if link := j.Chain; link != nil {
		step = int64(link.Step)
	}
	if j.Blobs&(1<<job.ChainConfig) != 0 {
		blob, err := r.Blob(id, job.ChainConfig)
		if err == nil {
			chain, err = chainText(blob)
		}
		if err != nil {
			return values, fmt.Errorf("chain: %w", err)
		}
	}
	return [...]any{
		int64(j.Number), text(j.UniqueKey), nullable(j.UniquePeriodMs), mark(j.UniqueWholePeriod), nullable(j.UniqueExpiresNs),
		ids[0], ids[1], ids[2], step, chain, ids[3],
		text(j.HoldReason), nullable(j.ExpireAfterMs), nullable(j.ExpireNs),
		mark(j.Cancelling), nullable(j.CancelledNs), nullable(int64(j.BlockedBy)), nullable(int64(j.DependencyPolicy)),
		nullable(int64(j.AttemptBase)), nullable(int64(j.Retry.GetJitterPercent())),
	}, nil
}

// forgetExtras drops the rows of jobs that have nothing any more of what few have.
// Most of them never had a row: asking for each would cost every job that is
// written a statement more.
func (w *writer) forgetExtras(numbers []uint64) error {
	if len(numbers) == 0 {
		return nil
	}
	text, err := list(numbers)
	if err != nil {
		return err
	}
	return w.exec(w.dropExtras, text)
}

// extraRow is a row of extra, or nothing at all.
type extraRow struct {
	uniqueKey, batch, parent, chainID, chain, schedule, reason                      sql.NullString
	period, wholePeriod, unlocks, step, expireAfter, expires, cancelling, cancelled sql.NullInt64
	blockedBy, policy, attemptBase, jitter                                          sql.NullInt64
}

// into is where the columns go, in their order.
func (x *extraRow) into() []any {
	return []any{
		&x.uniqueKey, &x.period, &x.wholePeriod, &x.unlocks, &x.batch, &x.parent, &x.chainID, &x.step, &x.chain, &x.schedule,
		&x.reason, &x.expireAfter, &x.expires, &x.cancelling, &x.cancelled, &x.blockedBy, &x.policy, &x.attemptBase, &x.jitter,
	}
}

// restore puts into a job what extra took from its record.
func (x *extraRow) restore(r *row) (err error) {
	j := &r.job
	j.UniqueKey, j.UniquePeriodMs, j.UniqueExpiresNs = x.uniqueKey.String, x.period.Int64, x.unlocks.Int64
	j.UniqueWholePeriod = x.wholePeriod.Valid
	j.HoldReason, j.ExpireAfterMs, j.ExpireNs = x.reason.String, x.expireAfter.Int64, x.expires.Int64
	j.Cancelling, j.CancelledNs = x.cancelling.Valid, x.cancelled.Int64
	j.BlockedBy, j.DependencyPolicy = uint32(x.blockedBy.Int64), job.DependencyPolicy(x.policy.Int64)
	j.AttemptBase, j.Retry.JitterPercent = uint32(x.attemptBase.Int64), uint32(x.jitter.Int64)
	if j.ParentId, err = fromIDText(job.IDPrefix, x.parent); err != nil {
		return err
	}
	if j.ScheduleId, err = fromIDText(schedulePrefix, x.schedule); err != nil {
		return err
	}
	if x.batch.Valid {
		j.Batch = &job.Membership{}
		if j.Batch.BatchId, err = fromIDText(batchPrefix, x.batch); err != nil {
			return err
		}
	}
	if x.chainID.Valid {
		j.Chain = &job.ChainLink{Step: uint32(x.step.Int64)}
		if j.Chain.ChainId, err = fromIDText(chainPrefix, x.chainID); err != nil {
			return err
		}
	}
	if x.chain.Valid {
		if r.blobs[job.ChainConfig], err = fromChainText(x.chain.String); err != nil {
			return fmt.Errorf("chain: %w", err)
		}
	}
	return nil
}

// mark is 1 or NULL.
func mark(set bool) any {
	if set {
		return int64(1)
	}
	return nil
}

// showExtra puts into a document what few jobs have and no other function of
// Document's sees to.
func showExtra(doc *api.Job, j *job.Job) {
	if len(j.ScheduleId) == len(job.ID{}) {
		doc.ScheduleID = optional(idWord(schedulePrefix, job.ID(j.ScheduleId)))
	}
	doc.Cancelling = j.Cancelling
	doc.CancelledAt = optionalTime(j.CancelledNs)
	doc.RetryJitterPercent = int(j.Retry.GetJitterPercent())
}
