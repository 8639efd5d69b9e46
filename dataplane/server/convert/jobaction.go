package convert

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// FromReason returns the reason that a person gives for holding or rejecting a job, or "" if there is none.
func FromReason(f *Faults, r *api.ReasonRequest) string {
	if err := job.CheckText(r.Reason, job.MaxHoldReason); err != nil {
		f.Invalid("reason", "%v", err)
	}
	return r.Reason
}

// ToStatus converts the outcome of an action on a job: the job's new state, or "cancelling" if a worker still
// runs the job.
func ToStatus(d *op.JobDone) api.Status {
	if d.Pending {
		return api.Status{Status: "cancelling"}
	}
	return api.Status{Status: d.State.Word()}
}

// ToDeleted converts the outcome of a deletion: "deleted", or "deleting" if a worker still runs the job and
// its attempt must end first.
func ToDeleted(d *op.JobDone) api.Status {
	if d.Pending {
		return api.Status{Status: "deleting"}
	}
	return api.Status{Status: "deleted"}
}
