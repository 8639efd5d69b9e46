package convert

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// FromReason is why a job is held or rejected; "" where the request does not say.
func FromReason(f *Faults, r *api.ReasonRequest) string {
	if err := job.CheckText(r.Reason, job.MaxHoldReason); err != nil {
		f.Invalid("reason", "%v", err)
	}
	return r.Reason
}

// ToStatus is what a job has become, or that it is about to be cancelled.
func ToStatus(d *op.JobDone) api.Status {
	if d.Pending {
		return api.Status{Status: "cancelling"}
	}
	return api.Status{Status: d.State.Word()}
}

// ToDeleted says whether a job is gone, or goes when its worker lets go of it.
func ToDeleted(d *op.JobDone) api.Status {
	if d.Pending {
		return api.Status{Status: "deleting"}
	}
	return api.Status{Status: "deleted"}
}
