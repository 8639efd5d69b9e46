package convert

import (
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// The words of unique_until.
const (
	uniqueUntilSettled = "settled"
	uniqueUntilPeriod  = "period"
)

// unique gives a job its unique key. It refuses unique_period and unique_until without unique_key, because a
// setting that is dropped silently would deceive a sender who relies on it.
func unique(f *Faults, r *api.EnqueueRequest, n *op.NewJob) {
	if err := job.CheckText(r.UniqueKey, job.MaxUniqueKey); err != nil {
		f.Invalid("unique_key", "%v", err)
	}
	period := int64(job.DefaultUniquePeriod / time.Second)
	if r.UniquePeriod != 0 {
		period = int64(r.UniquePeriod)
	}
	if most := int64(job.MaxUniquePeriod / time.Second); period < 1 || period > most {
		f.Invalid("unique_period", "is %d; it must be from 1 to %d seconds", period, most)
		period = 0
	}
	switch r.UniqueUntil {
	case "", uniqueUntilSettled, uniqueUntilPeriod:
	default:
		f.Invalid("unique_until", "%s is not known: use settled or period", text.Quote(r.UniqueUntil))
	}
	if r.UniqueKey != "" {
		n.Opt().UniqueKey, n.Opt().UniquePeriodMs, n.Opt().UniqueWholePeriod = r.UniqueKey, period*1000, r.UniqueUntil == uniqueUntilPeriod
		return
	}
	if r.UniquePeriod != 0 {
		f.Invalid("unique_period", "goes with unique_key, which is missing")
	}
	if r.UniqueUntil != "" {
		f.Invalid("unique_until", "goes with unique_key, which is missing")
	}
}

// debounce gives a job its debounce key, so that a later enqueue with the key updates the waiting job and
// restarts its delay.
func debounce(f *Faults, r *api.EnqueueRequest, n *op.NewJob) {
	if err := job.CheckText(r.DebounceKey, job.MaxUniqueKey); err != nil {
		f.Invalid("debounce_key", "%v", err)
	}
	if ms := millis(f, "debounce", r.Debounce, 0, job.MaxDebounce); r.DebounceKey != "" || ms != 0 {
		n.Opt().DebounceKey, n.Opt().DebounceMs = r.DebounceKey, ms
	}
	switch {
	case r.DebounceKey == "" && r.Debounce == "":
	case r.DebounceKey == "":
		f.Invalid("debounce_key", "is missing; debounce goes with it")
	case r.Debounce == "":
		f.Invalid("debounce", "is missing; debounce_key goes with it")
	case n.Options.GetDebounceMs() == 0:
		f.Invalid("debounce", "is 0: give the delay of the job")
	case r.UniqueKey != "":
		f.Invalid("debounce_key", "does not go with unique_key; choose one")
	case r.ScheduledAt != "":
		f.Invalid("scheduled_at", "does not go with debounce, which sets the job's start: give one of them")
	}
}
