package view

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"iter"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// iterationShift leaves room below a job's number for the numbers of its iterations in their ids. The SQL
// view job_iterations and the trigger that drops iterations shift by the same number of bits.
const iterationShift = 20

const putIterationSQL = `
INSERT OR REPLACE INTO job_iteration (id, status, checkpoint, checkpoint_in, trace, hold_reason, result,
	input_tokens, output_tokens, cache_creation_tokens, cache_read_tokens, model, provider, cost_nano_usd, created_ns)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

func iterationID(number uint64, iteration uint32) int64 {
	return int64(number)<<iterationShift | int64(iteration)
}

// iterationReader reads the iterations of jobs.
type iterationReader interface {
	// Iterations returns a job's iterations whose numbers are greater than after, in order.
	Iterations(id job.ID, after uint32) iter.Seq2[*job.Iteration, error]
}

var _ iterationReader = (*state.Snapshot)(nil)

// writeIterations writes the rows of a job's iterations and scores. If the job has none, writeIterations
// leaves old rows to emptyRows.
func (w *writer) writeIterations(r *state.Snapshot, j *job.Job, t touchedJob, fresh bool) error {
	if j.Detail.GetIterationsKept() > 0 {
		if err := w.iterations(r, j.Number, t); err != nil {
			return fmt.Errorf("iterations: %w", err)
		}
	}
	if j.Detail.GetScores() > 0 {
		scores, err := r.Scores(t.id)
		if err == nil {
			err = w.scores(j.Number, scores.GetScores(), fresh)
		}
		if err != nil {
			return fmt.Errorf("scores: %w", err)
		}
	}
	return nil
}

// iterations writes the iterations of a job that have no row yet. A job only ever adds iterations, until it
// begins again and has none. Writing all of them each time would make each iteration of a long-running agent
// cost more than the one before.
func (w *writer) iterations(r iterationReader, number uint64, t touchedJob) error {
	newest, err := w.newestRow(number)
	if err != nil {
		return err
	}
	if t.restarted && newest > 0 {
		if err := w.exec(w.dropIterations, iterationID(number, 0), iterationID(number+1, 0)); err != nil {
			return err
		}
		newest = 0
	}
	for it, err := range r.Iterations(t.id, newest) {
		if err == nil {
			err = w.iteration(number, it)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// newestRow returns the number of the newest iteration that has a row, or 0 if none has.
func (w *writer) newestRow(number uint64) (uint32, error) {
	var id [1]driver.Value
	if found, err := w.first(w.newestIteration, id[:], iterationID(number, 0), iterationID(number+1, 0)); !found {
		return 0, err
	}
	newest, _ := id[0].(int64)
	return uint32(newest & (1<<iterationShift - 1)), nil
}

func (w *writer) iteration(number uint64, it *job.Iteration) error {
	if it.Number >= 1<<iterationShift {
		return fmt.Errorf("number %d is more than their ids have room for", it.Number)
	}
	checkpoint, err1 := blobText(it.Checkpoint)
	trace, err2 := blobText(it.Trace)
	result, err3 := blobText(it.Result)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	u := it.Usage
	return w.exec(w.putIteration, iterationID(number, it.Number), it.Status.Word(), checkpoint, nullable(int64(it.CheckpointIn)), trace, text(it.HoldReason), result,
		u.GetInputTokens(), u.GetOutputTokens(), u.GetCacheCreationTokens(), u.GetCacheReadTokens(), text(u.GetModel()), text(u.GetProvider()),
		u.GetCostNanoUsd(), it.CreatedNs)
}

// scores writes all scores of a job. Unless the job is fresh, it then drops the rows of scores that the job
// no longer has.
func (w *writer) scores(number uint64, all []*job.Score, fresh bool) error {
	if len(all) > 1<<errorShift {
		return fmt.Errorf("there are %d, more than their ids have room for", len(all))
	}
	for i, s := range all {
		if err := w.exec(w.putScore, errorID(number, i), s.Dimension, s.Value, text(s.Scorer), s.CreatedNs); err != nil {
			return err
		}
	}
	if fresh {
		return nil
	}
	return w.exec(w.dropScores, errorID(number, len(all)), errorID(number, 1<<errorShift-1))
}
