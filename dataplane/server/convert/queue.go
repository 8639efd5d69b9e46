package convert

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
)

// FromConcurrency is a queue's limit of running jobs.
func FromConcurrency(f *Faults, r *api.ConcurrencyRequest) *uint32 {
	if r.Max == nil {
		f.Invalid("max", "is missing; give the most jobs that may run at once, 0 for no limit")
		return nil
	}
	if *r.Max < 0 || *r.Max > job.MaxConcurrency {
		f.Invalid("max", "is %d; it takes 0, for no limit, to %d", *r.Max, job.MaxConcurrency)
		return nil
	}
	most := uint32(*r.Max)
	return &most
}
