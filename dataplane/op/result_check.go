package op

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
)

// A job may have a schema for its result (NewJob.result_schema). Apply never parses documents, so the proposer
// checks the result against the schema. But only the state knows which jobs have a schema, and a lookup before
// every ack would be a cost for jobs without one. So the ack of a job with a schema is refused once, as a
// question, and the proposer proposes the answer: the ack with result_checked, or a Fail.

// ResultUnchecked is the code of that question. The proposer answers it, so no client ever sees it.
const ResultUnchecked api.Code = "RESULT_UNCHECKED"

// MisfitRequest is the request id of every Fail that the proposer proposes because a result does not match.
// The token identifies the attempt that the Fail ended, so that a repeated ack finds its own effect.
const MisfitRequest = "results mismatch"

// asksForCheck asks the proposer whether the result matches the job's schema. It returns nil if the answer is
// known, the job has no schema, or the ack does not end the job, because the schema is for the final result.
func (i *AckItem) asksForCheck(j *job.Job) *Refusal {
	if j.Blobs&(1<<job.ResultSchema) == 0 || i.ResultChecked || !i.ends() {
		return nil
	}
	return refuse(ResultUnchecked, "the result of job %s has to be held against its schema first", job.ID(j.Id))
}

// asksAgain repeats the question for an ack if a Fail for its misfit result has already ended the attempt.
// The proposer then proposes that Fail again and gets its answer. asksAgain returns nil for any other ack.
func (i *AckItem) asksAgain(j *job.Job) *Refusal {
	token := i.GetProof().GetToken()
	if len(token) == 0 || j.State == job.Active || string(j.Lease.GetLastRequest()) != MisfitRequest || !job.ProvesLease(j, token, "") {
		return nil
	}
	return i.asksForCheck(j)
}

// ends reports whether the ack ends the job: it has no agent status, or the status done.
func (i *AckItem) ends() bool {
	s := i.GetAgentStatus()
	return s == job.IterationStatus_ITERATION_STATUS_UNSPECIFIED || s == job.IterationStatus_ITERATION_STATUS_DONE
}
