package op

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
)

// A job may say what its result has to look like (NewJob.result_schema). Apply never
// parses documents, so the proposer holds the result against the schema: but only the
// state knows which jobs have one, and to look before every ack would cost those that
// have none. So an ack of a job that has one is refused once, as a question, and
// proposed again with the answer: result_checked, or a Fail instead.

// ResultUnchecked is the code of that question. It is for the proposer, who answers
// it: no client ever sees it.
const ResultUnchecked api.Code = "RESULT_UNCHECKED"

// MisfitRequest is the request id of every Fail that answers it. The token tells whose
// attempt such a Fail ended, so that the ack finds its own effect when it comes again.
const MisfitRequest = "results mismatch"

// asksForCheck asks the proposer whether the result fits the job's schema; nil where
// that is known, or there is none. What an agent leaves between two iterations is no
// result.
func (i *AckItem) asksForCheck(j *job.Job) *Refusal {
	if j.Blobs&(1<<job.ResultSchema) == 0 || i.ResultChecked || !i.ends() {
		return nil
	}
	return refuse(ResultUnchecked, "the result of job %s has to be held against its schema first", job.ID(j.Id))
}

// asksAgain asks for the check of a result once more that was found not to match, and
// ended j's last attempt; nil for any other lease that is over. A repeat is answered by
// the Fail that repeats too.
func (i *AckItem) asksAgain(j *job.Job) *Refusal {
	token := i.GetProof().GetToken()
	if len(token) == 0 || j.State == job.Active || string(j.Lease.GetLastRequest()) != MisfitRequest || !job.ProvesLease(j, token, "") {
		return nil
	}
	return i.asksForCheck(j)
}

// ends says whether the job is done with the ack.
func (i *AckItem) ends() bool {
	s := i.GetAgentStatus()
	return s == job.IterationStatus_ITERATION_STATUS_UNSPECIFIED || s == job.IterationStatus_ITERATION_STATUS_DONE
}
