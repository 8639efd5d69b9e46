package convert

import (
	"encoding/json"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
)

// FromConcurrency is a queue's limit of running jobs.
func FromConcurrency(f *Faults, r *api.ConcurrencyRequest) *uint32 {
	if r.Max == nil {
		f.Invalid("max", "is missing; give the most jobs that may run at once, 0 for no limit")
		return nil
	}
	return concurrency(f, "max", *r.Max)
}

func concurrency(f *Faults, field string, n int) *uint32 {
	if n < 0 || n > job.MaxConcurrency {
		f.Invalid(field, "is %d; it takes 0, for no limit, to %d", n, job.MaxConcurrency)
		return nil
	}
	most := uint32(n)
	return &most
}

// PutQueueBody is the body of PUT /queues/{name}.
type PutQueueBody struct {
	api.PutQueueRequest
	unbuiltQueue
}

// FromPutQueue is every setting of a queue; what the request does not name, or
// names as null, has its default.
func FromPutQueue(f *Faults, b *PutQueueBody) (paused *bool, maxConcurrency *uint32) {
	b.unbuiltQueue.report(f)
	var stopped bool
	var most int
	if b.Paused != nil {
		stopped = *b.Paused
	}
	if b.MaxConcurrency != nil {
		most = *b.MaxConcurrency
	}
	return &stopped, concurrency(f, "max_concurrency", most)
}

// unbuiltQueue are settings not built of a queue.
type unbuiltQueue struct {
	RateLimit    json.RawMessage `json:"rate_limit"`
	RateWindowMs json.RawMessage `json:"rate_window_ms"`
	Provider     json.RawMessage `json:"provider"`
}

func (u *unbuiltQueue) report(f *Faults) {
	reportSet(f, []rawField{{"rate_limit", u.RateLimit}, {"rate_window_ms", u.RateWindowMs}, {"provider", u.Provider}})
}
