package convert

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// FromReason returns the reason for which a job is held or rejected, or "" if there is none.
func FromReason(f *Faults, r *api.ReasonRequest) string {
	if err := job.CheckText(r.Reason, job.MaxHoldReason); err != nil {
		f.Invalid("reason", "%v", err)
	}
	return r.Reason
}

// ToStatus converts the new state of a job, or that its cancellation is under way.
func ToStatus(d *op.JobDone) api.Status {
	if d.Pending {
		return api.Status{Status: "cancelling"}
	}
	return api.Status{Status: d.State.Word()}
}

// ToDeleted reports whether a job is deleted, or will be when its worker releases it.
func ToDeleted(d *op.JobDone) api.Status {
	if d.Pending {
		return api.Status{Status: "deleting"}
	}
	return api.Status{Status: "deleted"}
}
