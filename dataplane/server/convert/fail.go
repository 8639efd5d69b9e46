package convert

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// FromFail converts the report of a failed attempt. The error api.WorkerShutdown becomes a reason of its own,
// because the attempt of a stopping worker does not count.
func FromFail(f *Faults, id job.ID, r *api.FailRequest) *op.FailItem {
	text := func(field, s string, most int) string {
		if len(s) > most {
			f.TooLong(field, len(s), most)
		}
		return s
	}
	reason := op.FailReason_FAIL_REASON_FAILED
	if r.Error == api.WorkerShutdown {
		reason = op.FailReason_FAIL_REASON_SHUTDOWN
	}
	return &op.FailItem{
		Proof:     leaseProof(f, id, r.LeaseToken, r.WorkerID),
		Reason:    reason,
		Error:     text("error", r.Error, job.MaxErrorText),
		Backtrace: text("backtrace", r.Backtrace, job.MaxBacktrace),
		Usage:     usage(r.Usage),
	}
}

// ToFailed converts the outcome of a failed attempt to its API form.
func ToFailed(r *op.Failed) api.FailResponse {
	return api.FailResponse{
		Status:            r.State.Word(),
		Attempt:           int(r.Attempt),
		NextAttemptAt:     timeOf(r.NextAttemptNs),
		AttemptsRemaining: int(r.AttemptsRemaining),
		UsageRejected:     r.Refusal.GetUsageRejected(),
	}
}
