package view

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// writer writes rows through one connection. It has one prepared statement for each kind of row, and writes
// many rows at once of the kinds that most jobs have.
type writer struct {
	conn   *sql.Conn
	driver driver.ConnPrepareContext // conn's
	stmts  []driver.Stmt             // every statement below
	args   []driver.NamedValue       // scratch

	begin, commit, rollback                       prepared
	newHot, putHot, newDocument, newWork, putWork rows

	putTimeRange, trimTimeRanges                                                               prepared
	timeRanges                                                                                 timeRanges // not saved yet
	putWords, replaceWords, dropWords                                                          prepared
	putDocument, putExtra, putError, putQueue, putBatch, putSchedule, putCursor                prepared
	dropHot, dropDocument, dropWork, dropExtra, dropErrors, dropQueue, dropBatch, dropSchedule prepared
	findEmpty, dropEmpty                                                                       [len(emptyTables)]prepared
	putUsage, trimUsage, newestUsage                                                           prepared
	usageFirst                                                                                 uint64 // the usage has no row before it
	usageNext                                                                                  uint64 // followUsage has read all rows before it; 0 = not known
	putAudit, trimAudit, newestAudit                                                           prepared
	audited                                                                                    auditSeen // progress in the store's audit log
	putKey, dropKeys, putNamespace, dropNamespace                                              prepared
	keys                                                                                       []*state.Key // with rows, if keysShown
	keysOf                                                                                     string       // their namespace
	keysShown                                                                                  bool
	putIteration, putScore, newestIteration                                                    prepared
	dropIterations, dropScores                                                                 prepared
	putResource, dropResource                                                                  [len(resourceTables)]prepared
}

const (
	hotColumns = `number, queue, state, priority, attempt, errors, created_ns, started_ns, completed_ns, worker_id, hostname,
		lease_expires_ns, lease_renewed_ns, scheduled_ns, failed_ns, cost_nano_usd, usage`
	documentColumns = `number, id, payload, max_retries, retry_backoff, retry_base_delay_ms, retry_max_delay_ms, tags, headers,
		result_schema, options, fairness_key, fairness_weight`
	workColumns = "number, result, progress, checkpoint"
)

// statement is the text of a statement and the field of the writer that receives the prepared form.
type statement struct {
	stmt *prepared
	text string
}

func newWriter(pool *sql.DB) (_ *writer, err error) {
	ctx := context.Background()
	w := &writer{
		timeRanges:  timeRanges{},
		newHot:      newRows("INSERT OR FAIL", "hot", hotColumns, "", 7, 11),
		putHot:      newRows("INSERT OR FAIL", "hot", hotColumns, replacing(hotColumns), 11, 13),
		newDocument: newRows("INSERT OR FAIL", "document", documentColumns, "", 7, 9),
		newWork:     newRows("INSERT OR FAIL", "work", workColumns, "", 2),
		putWork:     newRows("INSERT OR REPLACE", "work", workColumns, "", 2),
	}
	if w.conn, err = pool.Conn(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if err = w.conn.Raw(w.prepareAll); err != nil {
		return nil, err
	}
	return w, nil
}

// prepareAll prepares the writer's single statements, one for each kind of row and operation.
func (w *writer) prepareAll(conn any) (err error) {
	w.driver = conn.(driver.ConnPrepareContext)
	statements := append(w.resourceStatements(), w.emptyStatements()...)
	for _, s := range append(statements, []statement{
		{&w.begin, "BEGIN IMMEDIATE"},
		{&w.commit, "COMMIT"},
		{&w.rollback, "ROLLBACK"},
		{&w.putDocument, putDocumentSQL()},
		{&w.putError, `INSERT OR REPLACE INTO job_error
			(id, attempt, error, backtrace, created_ns, worker_id, started_ns, outcome) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`},
		{&w.putExtra, putExtraSQL},
		{&w.putQueue, `INSERT OR REPLACE INTO queue
			(name, created_ns, paused, max_concurrency,
			 scheduled, pending, active, retrying, held, completed, dead, cancelled,
			 enqueued_total, completed_total, failed_total, dead_total,
			 rate_limit, rate_window_ms, draining, deleting, max_length, on_full, retention, defaults, unique_locks, provider, ageing_ms, rate)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&w.putBatch, putBatchSQL},
		{&w.putSchedule, putScheduleSQL},
		{&w.putTimeRange, putTimeRangeSQL},
		{&w.trimTimeRanges, fmt.Sprintf("DELETE FROM time_range WHERE number < (SELECT min(number) FROM hot) >> %d", timeRangeShift)},
		{&w.putWords, "INSERT INTO words (rowid, queue, payload, tags) VALUES (?, ?, ?, ?)"},
		{&w.replaceWords, "INSERT OR REPLACE INTO words (rowid, queue, payload, tags) VALUES (?, ?, ?, ?)"},
		{&w.dropWords, "DELETE FROM words WHERE rowid = ?"},
		{&w.putCursor, `INSERT OR REPLACE INTO cursor
			(one, incarnation, next_seq, raft_index, clock_ns, seen_seq, seen_index, seen_clock_ns, seen_term, seen_leader)
			VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&w.dropHot, "DELETE FROM hot WHERE number = ?"},
		{&w.dropDocument, "DELETE FROM document WHERE number = ?"},
		{&w.dropWork, "DELETE FROM work WHERE number = ?"},
		{&w.dropExtra, "DELETE FROM extra WHERE number = ?"},
		{&w.dropErrors, "DELETE FROM job_error WHERE id BETWEEN ? AND ?"},
		{&w.dropQueue, "DELETE FROM queue WHERE name = ?"},
		{&w.dropBatch, "DELETE FROM batch WHERE id = ?"},
		{&w.dropSchedule, "DELETE FROM schedule WHERE id = ?"},
		{&w.putUsage, putUsageSQL},
		{&w.newestUsage, "SELECT coalesce(max(seq), 0) FROM usage"},
		{&w.trimUsage, "DELETE FROM usage WHERE seq < ?"},
		{&w.putAudit, putAuditSQL},
		{&w.trimAudit, "DELETE FROM audit WHERE seq < ?"},
		{&w.newestAudit, "SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1"},
		{&w.putKey, putKeySQL},
		{&w.dropKeys, "DELETE FROM api_key"},
		{&w.putNamespace, "INSERT INTO namespace (name) VALUES (?)"},
		{&w.dropNamespace, "DELETE FROM namespace"},
		{&w.putIteration, putIterationSQL},
		{&w.newestIteration, "SELECT id FROM job_iteration WHERE id >= ? AND id < ? ORDER BY id DESC LIMIT 1"},
		{&w.dropIterations, "DELETE FROM job_iteration WHERE id >= ? AND id < ?"},
		{&w.putScore, "INSERT OR REPLACE INTO job_score (id, dimension, value, scorer, created_ns) VALUES (?, ?, ?, ?, ?)"},
		{&w.dropScores, "DELETE FROM job_score WHERE id BETWEEN ? AND ?"},
	}...) {
		if *s.stmt, err = w.prepare(s.text); err != nil {
			return err
		}
	}
	return nil
}

// close closes the statements and the connection. Statements left open would keep the connection, and its
// locks on the file, alive.
func (w *writer) close() error {
	return errors.Join(w.conn.Raw(func(any) error {
		var errs []error
		for _, stmt := range w.stmts {
			errs = append(errs, stmt.Close())
		}
		return errors.Join(errs...)
	}), w.conn.Close())
}

// hot writes the columns that change during a job's life.
func (w *writer) hot(j *job.Job, fresh bool) error {
	var expires, renewed, cost, usage any
	if j.State == job.Active {
		expires = nullable(j.Lease.GetExpiresNs())
		renewed = nullable(j.Lease.GetExpiresNs() - j.Lease.GetLengthMs()*int64(time.Millisecond))
	}
	if u := ToUsage(j.Usage); u != nil {
		text, err := json.Marshal(u)
		if err != nil {
			return err
		}
		cost, usage = int64(u.CostUSD), string(text)
	}
	rows := &w.putHot
	if fresh {
		rows = &w.newHot
	}
	return w.add(rows, int64(j.Number), j.Queue, j.State.Word(), int64(j.Priority), int64(j.Attempt), int64(j.Errors), j.CreatedNs,
		nullable(j.StartedNs), nullable(j.CompletedNs), text(j.Lease.GetWorkerId()), text(j.Lease.GetHostname()),
		expires, renewed, nullable(j.ScheduledNs), nullable(j.FailedNs), cost, usage)
}

// document writes the columns that a job has from its creation on.
func (w *writer) document(j *job.Job, id job.ID, payload, resultSchema *job.Blob, fresh bool) error {
	body, err := blobText(payload)
	if err != nil {
		return err
	}
	schema, err := blobText(resultSchema)
	if err != nil {
		return err
	}
	tags, err := pairsText(j.Tags)
	if err != nil {
		return err
	}
	headers, err := pairsText(j.Headers)
	if err != nil {
		return err
	}
	options, err := encoded(j.Options)
	if err != nil {
		return err
	}
	if err := w.words(j, body, tags, fresh); err != nil {
		return err
	}
	values := [...]any{int64(j.Number), id.String(), body, int64(j.Retry.GetMaxAttempts()),
		j.Retry.GetBackoff().Word(), j.Retry.GetBaseDelayMs(), j.Retry.GetMaxDelayMs(), tags, headers, schema, options,
		text(j.FairnessKey), nullable(int64(j.FairnessWeight))}
	if fresh {
		return w.add(&w.newDocument, values[:]...)
	}
	return w.exec(w.putDocument, values[:]...)
}

// attemptBlobs are the kinds of blobs that the table work holds.
const attemptBlobs = 1<<job.Progress | 1<<job.Checkpoint | 1<<job.Result

// work writes the blobs that attempts left behind, and no row if they left none. It does not drop the row of
// a job whose record has no such blob: see emptyRows.
func (w *writer) work(j *job.Job, blobs Blobs, fresh bool) error {
	progress, err1 := blobText(blobs[job.Progress])
	checkpoint, err2 := blobText(blobs[job.Checkpoint])
	result, err3 := blobText(blobs[job.Result])
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	if progress == nil && checkpoint == nil && result == nil {
		if fresh || j.Blobs&attemptBlobs == 0 {
			return nil
		}
		return w.exec(w.dropWork, int64(j.Number))
	}
	rows := &w.putWork
	if fresh {
		rows = &w.newWork
	}
	return w.add(rows, int64(j.Number), result, progress, checkpoint)
}

// errors makes errs the job's errors. It does not drop the rows of a job without errors: see emptyRows.
func (w *writer) errors(number uint64, errs []*job.AttemptError, fresh bool) error {
	if len(errs) > 1<<errorShift {
		return fmt.Errorf("job number %d has %d errors, more than their ids have room for", number, len(errs))
	}
	for i, e := range errs {
		if err := w.exec(w.putError, errorID(number, i), int64(e.Attempt), e.Error, text(e.Backtrace), e.CreatedNs,
			text(e.WorkerId), nullable(e.StartedNs), e.Outcome.Word()); err != nil {
			return err
		}
	}
	if fresh || len(errs) == 0 {
		return nil
	}
	return w.exec(w.dropErrors, errorID(number, len(errs)), errorID(number, 1<<errorShift-1))
}

// forget drops all rows of a job. It stops at the first error, because the transaction may have ended with
// it.
func (w *writer) forget(number uint64) error {
	for _, drop := range [...]prepared{w.dropHot, w.dropDocument, w.dropWork, w.dropExtra, w.dropWords} {
		if err := w.exec(drop, int64(number)); err != nil {
			return err
		}
	}
	return w.exec(w.dropErrors, errorID(number, 0), errorID(number, 1<<errorShift-1))
}

func (w *writer) queue(q *state.Queue) error {
	retention, defaults, err := queueTexts(q)
	if err != nil {
		return err
	}
	return w.exec(w.putQueue, q.Name, q.CreatedNs, q.Paused, nullable(int64(q.MaxConcurrency)),
		inState(q, job.Scheduled), inState(q, job.Pending), inState(q, job.Active), inState(q, job.Retrying),
		inState(q, job.Held), inState(q, job.Completed), inState(q, job.Dead), inState(q, job.Cancelled),
		int64(q.Enqueued), int64(q.Completed), int64(q.Failed), int64(q.Dead),
		nullable(int64(q.RateLimit)), nullable(q.RateWindowMs), q.Draining, q.Deleting,
		nullable(int64(q.MaxLength)), onFull(q.Overflow), retention, defaults, int64(q.UniqueLocks), text(q.Provider), nullable(q.AgeingMs), rateText(q.Rate))
}

func (w *writer) forgetQueue(name string) error { return w.exec(w.dropQueue, name) }

func inState(q *state.Queue, s job.State) int64 {
	if int(s) >= len(q.InState) {
		return 0
	}
	return int64(q.InState[s])
}

// nullable converts 0, which means "none" in a record, to NULL.
func nullable(n int64) any {
	if n == 0 {
		return nil
	}
	return n
}

// text converts "" to NULL.
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func blobText(b *job.Blob) (any, error) {
	body, err := plain(b)
	if body == nil || err != nil {
		return nil, err
	}
	return string(body), nil
}

func pairsText(pairs []*job.Pair) (any, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	object, err := json.Marshal(api.Strings(toStrings(pairs))) // sorted by name
	return string(object), err
}
