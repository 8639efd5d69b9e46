package view

import (
	"database/sql"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// extraColumns are the columns that extraRow reads from extra x. The other columns serve searches and the SQL
// views only, because the detail and the document's options hold the same values.
const extraColumns = `x.detail, x.batch_id, x.chain_id, x.chain_step, x.chain_config,
	x.cancelling, x.blocked_by, x.attempt_base, x.jitter_percent`

const putExtraSQL = `
INSERT OR REPLACE INTO extra (number, detail,
	unique_key, unique_whole_period, unique_expires_ns, parent_id, expire_ns, hold_reason,
	agent_max_iterations, agent_max_cost_nano_usd, agent_iteration_timeout, agent_iteration, spent_before_nano_usd,
	batch_id, chain_id, chain_step, chain_config, cancelling, blocked_by, attempt_base, jitter_percent)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// extra writes a job's row in extra and reports whether the job has one. It writes no row for a plain record
// and does not drop an old one either: see emptyRows.
func (w *writer) extra(r state.Reader, j *job.Job, id job.ID) (some bool, err error) {
	if plainRecord(j) {
		return false, nil
	}
	values, err := extraValues(r, j, id)
	if err != nil {
		return false, err
	}
	return true, w.exec(w.putExtra, values[:]...)
}

// plainRecord reports whether a job has no value for any column of extra. Options that no search filters by
// do not count, because the job's document holds its options and its fairness key.
func plainRecord(j *job.Job) bool {
	o := j.Options
	return o.GetUniqueKey() == "" && !o.GetUniqueWholePeriod() && len(o.GetParentId()) == 0 && o.GetAgent() == nil && j.Detail == nil && j.Batch == nil && j.Chain == nil && j.Blobs&(1<<job.ChainConfig) == 0 &&
		!j.Cancelling && j.BlockedBy == 0 && j.AttemptBase == 0 && j.Retry.GetJitterPercent() == 0
}

// extraValues returns a job's row in extra, with NULL for each value that the job does not have.
func extraValues(r state.Reader, j *job.Job, id job.ID) (values [21]any, err error) {
	detail, err := encoded(j.Detail)
	if err != nil {
		return values, err
	}
	var ids [3]any
	for i, x := range [...]struct {
		prefix string
		id     []byte
	}{{job.IDPrefix, j.Options.GetParentId()}, {batchPrefix, j.Batch.GetBatchId()}, {chainPrefix, j.Chain.GetChainId()}} {
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
	agent := j.Options.GetAgent()
	return [...]any{
		int64(j.Number), detail,
		text(j.Options.GetUniqueKey()), mark(j.Options.GetUniqueWholePeriod()), nullable(j.Detail.GetUniqueExpiresNs()),
		ids[0], nullable(j.Detail.GetExpireNs()), text(j.Detail.GetHoldReason()),
		nullable(int64(agent.GetMaxIterations())), nullable(agent.GetMaxCostNanoUsd()), text(string(timeout(agent))),
		nullable(int64(j.Detail.GetIteration())), nullable(j.Detail.GetSpentBeforeNanoUsd()),
		ids[1], ids[2], step, chain,
		mark(j.Cancelling), nullable(int64(j.BlockedBy)), nullable(int64(j.AttemptBase)), nullable(int64(j.Retry.GetJitterPercent())),
	}, nil
}

// encoded returns the encoding of a part of a record, or NULL if the encoding is empty.
func encoded(m interface{ MarshalVT() ([]byte, error) }) (any, error) {
	data, err := m.MarshalVT()
	if len(data) == 0 || err != nil {
		return nil, err
	}
	return data, nil
}

// timeout returns the time limit of an iteration, or "" if there is none.
func timeout(agent *job.AgentConfig) api.Duration {
	if agent.GetIterationTimeoutMs() == 0 {
		return ""
	}
	return durationOf(agent.IterationTimeoutMs)
}

// extraRow receives a row of extra. All its fields are null if the job has no row.
type extraRow struct {
	detail                                           []byte
	batch, chainID, chain                            sql.NullString
	step, cancelling, blockedBy, attemptBase, jitter sql.NullInt64
}

// into returns the destinations of extraColumns, in their order.
func (x *extraRow) into() []any {
	return []any{
		&x.detail, &x.batch, &x.chainID, &x.step, &x.chain, &x.cancelling, &x.blockedBy, &x.attemptBase, &x.jitter,
	}
}

// restore puts the values of extra back into the job's record.
func (x *extraRow) restore(r *row) (err error) {
	j := &r.job
	if x.detail != nil {
		if err := j.Details().UnmarshalVT(x.detail); err != nil {
			return fmt.Errorf("decode its detail: %w", err)
		}
	}
	j.Cancelling, j.BlockedBy = x.cancelling.Valid, uint32(x.blockedBy.Int64)
	j.AttemptBase, j.Retry.JitterPercent = uint32(x.attemptBase.Int64), uint32(x.jitter.Int64)
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

// mark returns 1 or NULL.
func mark(set bool) any {
	if set {
		return int64(1)
	}
	return nil
}

// documentExtra fills in the fields that few jobs have and that no other function fills in.
func documentExtra(doc *api.Job, j *job.Job) {
	if len(j.Options.GetScheduleId()) == len(job.ID{}) {
		doc.ScheduleID = optional(idWord(schedulePrefix, job.ID(j.Options.GetScheduleId())))
	}
	if len(j.Batch.GetBatchId()) == len(job.ID{}) {
		doc.BatchID = optional(idWord(batchPrefix, job.ID(j.Batch.GetBatchId())))
	}
	doc.Cancelling = j.Cancelling
	doc.CancelledAt = optionalTime(j.Detail.GetCancelledNs())
	doc.RetryJitterPercent = int(j.Retry.GetJitterPercent())
}
