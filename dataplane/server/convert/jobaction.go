package convert

import (
	"net/url"
	"strconv"

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

// FromDead is the search for a page of dead jobs.
func FromDead(f *Faults, query url.Values) Search {
	body := SearchBody{SearchRequest: api.SearchRequest{
		Queue: query.Get("queue"), State: []string{job.Dead.Word()}, Cursor: query.Get("cursor"),
	}}
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			f.Invalid("limit", "%s is not a number", Excerpt(text))
		}
		body.Limit = &n
	}
	return FromSearch(f, &body)
}
