package op

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// Each step of a chain carries the whole chain in a blob, so the shard on which a step settles can create the
// next step without reading another record. A record of the chain on one shard was rejected: steps lie on the
// shards of their queues, the shard of the first step may be unavailable, and every step would have to ask
// it.
//
// A step creates its successors once, when it first settles. A step that is retried after that runs alone,
// because ChainLink.ended stays set.

// startChain stores a new job's chain, if it has one, and the job's step in it. The link names the step. A
// job without a link is the first step, and startChain copies its payload into the chain, for later steps
// without a payload.
func (nj *NewJob) startChain(tx *state.Tx, j *job.Job) error {
	if nj.Chain == nil {
		return nil
	}
	chain := nj.Chain
	j.Chain = &job.ChainLink{ChainId: j.Id}
	if nj.Link != nil {
		j.Chain.ChainId, j.Chain.Step = nj.Link.ChainId, nj.Link.Step
	} else {
		steps := append([]*job.Step{{Queue: nj.Queue, Shard: tx.Shard(), Payload: nj.Payload}}, chain.Steps[1:]...)
		chain = &job.Chain{Steps: steps, OnFailure: chain.OnFailure, Failure: chain.Failure, Exit: chain.Exit}
	}
	data, err := chain.MarshalVT()
	if err != nil {
		return fmt.Errorf("encode the chain of job %s: %w", job.ID(j.Id), err)
	}
	return tx.PutBlob(j, job.ChainConfig, &job.Blob{Data: data})
}

// advanceChain creates the jobs that follow a job in its chain, when the job first settles.
func advanceChain(tx *state.Tx, j *job.Job, how settlement) error {
	if j.Chain == nil || j.Chain.Ended {
		return nil
	}
	chain, err := chainOf(tx, j)
	if err != nil {
		return err
	}
	j.Chain.Ended = true
	s := succession{tx: tx, before: j, chain: chain, how: how}
	turn := chain.After(j.Chain.Step, j.State, how.exit)
	if turn.Next {
		err = s.next()
	}
	if turn.Failure && err == nil {
		err = s.failure()
	}
	if turn.Outcome != "" && chain.Exit != nil && err == nil {
		err = s.exit(turn.Outcome)
	}
	if err == nil && s.made {
		tx.AddEvent(state.EventType_EVENT_CHAIN_ADVANCED, j)
	}
	return err
}

// chainOf reads the chain that a job is a step of.
func chainOf(tx *state.Tx, j *job.Job) (*job.Chain, error) {
	chain := &job.Chain{}
	b, err := tx.Blob(j, job.ChainConfig)
	if err == nil {
		err = chain.UnmarshalVT(b.GetData())
	}
	switch {
	case err != nil:
	case int(j.Chain.Step) >= len(chain.Steps):
		err = fmt.Errorf("it is step %d of %d", j.Chain.Step, len(chain.Steps))
	case chain.OnFailure > job.OnFailure_ON_FAILURE_QUEUE:
		err = fmt.Errorf("on_failure is %d, which this binary does not know", chain.OnFailure)
	}
	if err != nil {
		return nil, fmt.Errorf("chain of job %s: %w", job.ID(j.Id), err)
	}
	return chain, nil
}

// succession creates the jobs that follow a job in its chain.
type succession struct {
	tx     *state.Tx
	before *job.Job
	chain  *job.Chain
	how    settlement
	made   bool
}

// next creates the next step, without a previous result if this step did not succeed or has no result.
func (s *succession) next() error {
	link := &job.ChainLink{ChainId: s.before.Chain.ChainId, Step: s.before.Chain.Step + 1}
	return s.createJob(s.chain.Steps[link.Step], &NewJob{
		Chain: s.chain, Link: link, Previous: s.how.result, Origin: s.origin(job.OriginKind_ORIGIN_KIND_STEP),
	})
}

// failure creates the failure job of a dead step. It is not a step of the chain.
func (s *succession) failure() error {
	origin := s.origin(job.OriginKind_ORIGIN_KIND_FAILURE)
	origin.Attempt, origin.Error = s.before.Attempt, s.how.err
	return s.createJob(s.chain.Failure, &NewJob{Origin: origin})
}

// exit creates the job that follows the end of the chain. It is not a step of the chain.
func (s *succession) exit(outcome string) error {
	origin := s.origin(job.OriginKind_ORIGIN_KIND_EXIT)
	origin.Outcome = outcome
	return s.createJob(s.chain.Exit, &NewJob{Previous: s.how.result, Origin: origin})
}

func (s *succession) origin(kind job.OriginKind) *job.Origin {
	return &job.Origin{Kind: kind, JobId: s.before.Id, Queue: s.before.Queue}
}

// createJob creates a job on the shard of its queue. The job inherits the retry policy, priority, tags,
// headers, fairness key and fairness weight of the job before it, so that the whole chain counts for the client
// that enqueued it. It does not inherit the batch, the checkpoint, the result schema, the times and the
// options, such as the unique key, the model, the agent and the expiry.
func (s *succession) createJob(step *job.Step, nj *NewJob) error {
	nj.Queue, nj.Payload = step.Queue, s.chain.PayloadOf(step)
	nj.Priority, nj.Tags, nj.Headers = s.before.Priority, s.before.Tags, s.before.Headers
	nj.FairnessKey, nj.FairnessWeight = s.before.FairnessKey, s.before.FairnessWeight
	// The retry policy is copied, because one transaction may hold both jobs and changes each in place.
	r := s.before.GetRetry()
	nj.Retry = &job.Retry{
		MaxAttempts: r.GetMaxAttempts(), Backoff: r.GetBackoff(),
		BaseDelayMs: r.GetBaseDelayMs(), MaxDelayMs: r.GetMaxDelayMs(), JitterPercent: r.GetJitterPercent(),
	}
	id := s.tx.NewID(step.Queue)
	s.made = true
	return send(s.tx, step.Shard, &CreateJobs{Meta: &Meta{Ids: [][]byte{id[:]}}, Jobs: []*NewJob{nj}})
}
