package op

import (
	"errors"
	"math"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// ScoreJob stores a score of a job in any state. A scorer has one score in each dimension: a later one replaces
// the earlier.

// Validate refuses an op that no state could accept.
func (o *ScoreJob) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.add("job_id", checkID(o.JobId))
	if o.GetScore().GetDimension() == "" {
		p.add("dimension", errors.New("is missing: name the quality to score"))
	}
	p.add("dimension", job.CheckText(o.GetScore().GetDimension(), job.MaxScoreWord))
	p.add("scorer", job.CheckText(o.GetScore().GetScorer(), job.MaxScoreWord))
	if v := o.GetScore().GetValue(); math.IsNaN(v) || math.IsInf(v, 0) {
		p.add("value", errors.New("is not a finite number"))
	}
	return p.err()
}

// Apply stores the score. It refuses an unknown job with NOT_FOUND, and a new score with CONFLICT if the job
// already has job.MaxScores scores.
func (o *ScoreJob) Apply(tx *state.Tx) (*ScoreJobResult, error) {
	j, err := jobOf(tx, o.JobId)
	if err != nil {
		return nil, err
	}
	if j == nil {
		return nil, api.Errorf(api.NotFound, "there is no job %s", job.ID(o.JobId))
	}
	scores, err := tx.Scores(job.ID(j.Id))
	if err != nil {
		return nil, err
	}
	if scores == nil {
		scores = &state.Scores{JobId: j.Id}
	}
	at := 0
	for at < len(scores.Scores) && !sameJudge(scores.Scores[at], o.Score) {
		at++
	}
	if at == job.MaxScores {
		return nil, api.Errorf(api.Conflict, "job %s has %d scores, the maximum: replace one by its dimension and scorer", job.ID(j.Id), job.MaxScores)
	}
	score := &job.Score{Dimension: o.Score.Dimension, Value: o.Score.Value, Scorer: o.Score.Scorer, CreatedNs: tx.ClockNs()}
	if at == len(scores.Scores) {
		scores.Scores = append(scores.Scores, score)
	} else {
		scores.Scores[at] = score
	}
	if err := tx.PutScores(job.ID(j.Id), scores); err != nil {
		return nil, err
	}
	j.Details().Scores = uint32(len(scores.Scores))
	tx.AddScored(j, score)
	return &ScoreJobResult{}, tx.PutJob(j)
}

func sameJudge(a, b *job.Score) bool { return a.Dimension == b.Dimension && a.Scorer == b.Scorer }
