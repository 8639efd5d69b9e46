package convert

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// ToWhy converts the reasons why a job does not run to their API form. last is the job's last unsuccessful
// attempt, or nil. The job's record does not tell its position, the workers and the jobs that it waits for,
// so the caller adds these.
func ToWhy(j *job.Job, reasons []op.Why, last *job.AttemptError) api.Why {
	out := api.Why{
		JobID: job.ID(j.Id).String(), Queue: j.Queue, State: j.State.Word(),
		Waiting: j.State != job.Active && !j.State.Settled(),
		Reasons: []api.WhyReason{}, DependsOn: []api.WhyAwaited{},
	}
	for _, why := range reasons {
		AddReason(&out, why)
	}
	if last != nil {
		word := last.Outcome.Word()
		out.LastError, out.Outcome = &last.Error, &word
	}
	if j.State == job.Completed {
		word := api.OutcomeCompleted
		out.Outcome = &word
	}
	return out
}

// AddReason adds one more reason to w.
func AddReason(w *api.Why, why op.Why) {
	reason := api.WhyReason{Reason: string(why.Reason), Name: why.Name, Message: why.Text}
	if why.UntilNs != 0 {
		at := timeOf(why.UntilNs)
		reason.Until = &at
	}
	w.Reasons = append(w.Reasons, reason)
}
