package sim

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// compareAgent compares the part of a job that iterations and approvals use.
func (j *modelJob) compareAgent(is *job.Job) error {
	a, d, o := &j.agent, is.GetDetail(), is.GetOptions()
	var size uint64
	for _, it := range a.kept {
		for _, b := range []*job.Blob{it.GetCheckpoint(), it.GetTrace(), it.GetResult()} {
			size += uint64(len(b.GetData()))
		}
	}
	same := d.GetIteration() == a.ended && int(d.GetIterationsKept()) == len(a.kept) && d.GetIterationBytes() == size &&
		d.GetCheckpointIn() == a.checkpointIn && d.GetSpentBeforeNanoUsd() == a.elsewhere && d.GetCostWaived() == a.waived &&
		tokensOf(d.GetUsageBefore()) == a.counted.tokens && d.GetUsageBefore().GetCostNanoUsd() == a.counted.costNano &&
		int(d.GetScores()) == len(a.scores) && slices.EqualFunc(d.GetApproved(), a.approved, bytes.Equal) &&
		is.GetLease().GetAcked() == a.acked &&
		proto.Equal(o.GetAgent(), a.bounds) && o.GetCostEstimateNanoUsd() == a.estimate &&
		bytes.Equal(o.GetReplayOf(), a.replayOf) && o.GetReplayFrom() == a.replayFrom
	if j.state == job.Held {
		same = same && d.GetHold() == a.hold && d.GetHoldBy() == a.holdBy && d.GetHoldReason() != ""
	}
	if j.state == job.Active {
		same = same && is.GetStartedNs() == a.startedNs
	}
	if !same {
		return fmt.Errorf("%s is %v in the store, as an agent's job %+v in the model", j.id, is, *a)
	}
	return nil
}

// compareAgents compares the records that the store keeps beside jobs: one for each iteration, and the
// scores.
func (m *model) compareAgents(v *state.Snapshot) error {
	var errs []error
	scored := uint64(0)
	for _, j := range byNumber(m) {
		i := 0
		for it, err := range v.Iterations(j.id, 0) {
			if err != nil {
				return err
			}
			if i == len(j.agent.kept) || !proto.Equal(it, j.agent.kept[i]) {
				errs = append(errs, fmt.Errorf("iteration %d of job %s is %v in the store, in the model they are %v", it.GetNumber(), j.id, it, j.agent.kept))
				break
			}
			i++
		}
		if i != len(j.agent.kept) {
			errs = append(errs, fmt.Errorf("job %s has %d iterations in the store, %d in the model", j.id, i, len(j.agent.kept)))
		}
		errs = append(errs, j.isDense())
		scores, err := v.Scores(j.id)
		if err != nil || !slices.EqualFunc(scores.GetScores(), j.agent.scores, func(a, b *job.Score) bool { return proto.Equal(a, b) }) {
			errs = append(errs, fmt.Errorf("job %s has the scores %v in the store, %v in the model (%w)", j.id, scores, j.agent.scores, err))
		}
		if len(j.agent.scores) > 0 {
			scored++
		}
	}
	if n := v.Head().GetScoreRecords(); n != scored {
		errs = append(errs, fmt.Errorf("the store has scores of %d jobs, the model of %d", n, scored))
	}
	return errors.Join(errs...)
}

// isDense checks that a job's iterations are numbered without a gap. They begin with the first, or in a
// replay with the iteration from which it replays.
func (j *modelJob) isDense() error {
	next := max(j.agent.replayFrom, 1)
	for _, it := range j.agent.kept {
		if it.GetNumber() != next {
			return fmt.Errorf("job %s has iteration %d where %d was to come", j.id, it.GetNumber(), next)
		}
		next++
	}
	return nil
}

// inspectLost compares the errors of attempts whose lease expired with the model's.
func (m *model) inspectLost(v *state.Snapshot) error {
	for _, j := range byNumber(m) {
		all, err := v.Errors(j.id)
		if err != nil {
			return err
		}
		for _, e := range all {
			if e.GetOutcome() == job.Reclaimed && e.GetError() != j.agent.lost[e.GetAttempt()] {
				return fmt.Errorf("attempt %d of job %s has the error %q in the store, %q in the model", e.GetAttempt(), j.id, e.GetError(), j.agent.lost[e.GetAttempt()])
			}
		}
	}
	return nil
}
