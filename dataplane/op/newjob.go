package op

import (
	"errors"
	"fmt"
	"time"

	"github.com/corvo/corvo/dataplane/job"
)

// check looks at what every job to be made must be, whoever has it made.
func (nj *NewJob) check(p *problems, i int) {
	p.item("jobs", i, "queue", job.CheckQueueName(nj.GetQueue()))
	if nj.GetPayload() == nil {
		p.item("jobs", i, "payload", errors.New("is missing"))
	}
	// How large a payload may be is a setting of the server; here stands the most
	// it may say.
	p.blob("jobs", i, "payload", nj.GetPayload(), job.MaxPayloadFlag)
	p.blob("jobs", i, "checkpoint", nj.GetCheckpoint(), job.MaxCheckpoint)
	if nj.GetPriority() >= job.Priorities {
		p.item("jobs", i, "priority", fmt.Errorf("is %d; use critical (0), high (1) or normal (2)", nj.GetPriority()))
	}
	p.item("jobs", i, "retry", job.CheckRetry(nj.GetRetry())...)
	p.item("jobs", i, "tags", job.CheckTags(nj.GetTags())...)
	p.item("jobs", i, "headers", job.CheckHeaders(nj.GetHeaders())...)
	if nj.GetScheduledNs() < 0 {
		p.item("jobs", i, "scheduled_at", errors.New("lies before 1970"))
	}
	nj.checkKeys(p, i)
	nj.checkChain(p, i)
	p.item("jobs", i, "expire_after", checkSpan(nj.GetExpireAfterMs(), 0, job.MaxExpireAfter))
	if n := len(nj.GetParentId()); n != 0 && n != len(job.ID{}) {
		p.item("jobs", i, "parent_id", fmt.Errorf("has %d bytes; an id has %d", n, len(job.ID{})))
	}
	if nj.GetDefaults() > job.AllDefaults {
		p.item("jobs", i, "defaults", fmt.Errorf("%b has bits that stand for nothing", nj.GetDefaults()))
	}
}

// checkKeys looks at what keeps a job one of its kind. Of the two keys a job has at
// most one: a unique key would find the job there is before the debounce key could
// put it off.
func (nj *NewJob) checkKeys(p *problems, i int) {
	p.item("jobs", i, "unique_key", job.CheckText(nj.GetUniqueKey(), job.MaxUniqueKey))
	p.item("jobs", i, "debounce_key", job.CheckText(nj.GetDebounceKey(), job.MaxUniqueKey))
	switch {
	case nj.GetUniqueKey() != "":
		p.item("jobs", i, "unique_period", checkSpan(nj.UniquePeriodMs, 1, job.MaxUniquePeriod))
	case nj.GetUniquePeriodMs() != 0 || nj.GetUniqueWholePeriod():
		p.item("jobs", i, "unique_period", errors.New("goes with unique_key, which is missing"))
	}
	switch {
	case nj.GetDebounceKey() != "":
		p.item("jobs", i, "debounce", checkSpan(nj.DebounceMs, 1, job.MaxDebounce))
		if nj.UniqueKey != "" {
			p.item("jobs", i, "debounce_key", errors.New("does not go with unique_key; choose one"))
		}
		if nj.ScheduledNs != 0 {
			p.item("jobs", i, "debounce", errors.New("does not go with scheduled_at; choose one"))
		}
	case nj.GetDebounceMs() != 0:
		p.item("jobs", i, "debounce", errors.New("goes with debounce_key, which is missing"))
	}
}

// checkClients refuses what no client may say: that another job, a batch or a
// schedule made this one.
func (nj *NewJob) checkClients(p *problems, i int) {
	for _, f := range [...]struct {
		name string
		said bool
	}{
		{"origin", nj.GetOrigin() != nil},
		{"previous", nj.GetPrevious() != nil},
		{"link", nj.GetLink() != nil},
		{"schedule_id", len(nj.GetScheduleId()) != 0},
	} {
		if f.said {
			p.item("jobs", i, f.name, errors.New("is not for clients to say"))
		}
	}
}

// checkSpan checks a length of time in milliseconds.
func checkSpan(ms, least int64, most time.Duration) error {
	if ms < least || ms > most.Milliseconds() {
		return fmt.Errorf("is %d ms; it lies between %d ms and %s", ms, least, most)
	}
	return nil
}
