package view

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"iter"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// iterationShift leaves room for a job's iterations below its number in their ids.
// The job_iterations view shifts by the same, as does the trigger that drops them.
const iterationShift = 20

const putIterationSQL = `
INSERT OR REPLACE INTO job_iteration (id, status, checkpoint, checkpoint_in, trace, hold_reason, result,
	input_tokens, output_tokens, cache_creation_tokens, cache_read_tokens, model, provider, cost_nano_usd, created_ns)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

func iterationID(number uint64, iteration uint32) int64 {
	return int64(number)<<iterationShift | int64(iteration)
}

// iterated is what has the iterations of jobs.
type iterated interface {
	// Iterations are those above a number, in order.
	Iterations(id job.ID, after uint32) iter.Seq2[*job.Iteration, error]
}

var _ iterated = (*state.JobIterator)(nil)

// judge makes the rows of a job's iterations and scores what its records say. It
// leaves alone those of a job that has none of either: see lost.
func (w *writer) judge(r *state.JobIterator, j *job.Job, t touched, fresh bool) error {
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

// iterations writes those iterations of a job that have no row. They are only ever
// added, until the job begins anew and has none: an agent of thousands of iterations
// would else cost more with each.
func (w *writer) iterations(r iterated, number uint64, t touched) error {
	newest, err := w.newestRow(number)
	if err != nil {
		return err
	}
	if t.again && newest > 0 {
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

// newestRow is the number of the newest iteration that has a row; 0 where there is none.
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

// scores makes all the job's scores.
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
