package job_test

import (
	"testing"

	"github.com/corvo/corvo/dataplane/job"
)

// After every outcome of a step the chain either goes on or ends, once.
func TestChainTurns(t *testing.T) {
	t.Parallel()
	const stop, goOn, queue = job.OnFailure_ON_FAILURE_STOP, job.OnFailure_ON_FAILURE_CONTINUE, job.OnFailure_ON_FAILURE_QUEUE
	next := job.Turn{Next: true}
	ended := func(outcome string) job.Turn { return job.Turn{Outcome: outcome} }
	for _, c := range []struct {
		step      uint32 // of two
		settled   job.State
		exit      bool
		onFailure job.OnFailure
		want      job.Turn
	}{
		{0, job.Completed, false, stop, next},
		{0, job.Completed, false, queue, next},
		{1, job.Completed, false, goOn, ended(job.ChainCompleted)},
		{0, job.Completed, true, goOn, ended(job.ChainExited)},
		{1, job.Completed, true, stop, ended(job.ChainExited)},
		{0, job.Dead, false, stop, ended(job.ChainFailed)},
		{1, job.Dead, false, stop, ended(job.ChainFailed)},
		{0, job.Dead, false, goOn, next},
		{1, job.Dead, false, goOn, ended(job.ChainFailed)},
		{0, job.Dead, false, queue, job.Turn{Failure: true, Outcome: job.ChainFailed}},
		{1, job.Dead, false, queue, job.Turn{Failure: true, Outcome: job.ChainFailed}},
		{0, job.Cancelled, false, goOn, ended(job.ChainCancelled)},
		{0, job.Cancelled, false, queue, ended(job.ChainCancelled)},
	} {
		chain := &job.Chain{Steps: make([]*job.Step, 2), OnFailure: c.onFailure}
		if got := chain.After(c.step, c.settled, c.exit); got != c.want {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}
