package op

import (
	"errors"
	"fmt"
	"time"

	"github.com/corvo/corvo/dataplane/job"
)

// check checks the fields that every source of a new job may set. Enqueue, CreateJobs and the tool calls of
// an Ack use it. ReplayJob does not, because it copies a job that was checked before.
func (nj *NewJob) check(p *problems, i int) {
	p.item("jobs", i, "queue", job.CheckStoredQueueName(nj.GetQueue()))
	if nj.GetPayload() == nil {
		p.item("jobs", i, "payload", errors.New("is missing"))
	}
	// A setting of the server limits payloads. This is the largest value that the setting may have.
	p.blob("jobs", i, "payload", nj.GetPayload(), job.MaxPayload)
	p.blob("jobs", i, "checkpoint", nj.GetCheckpoint(), job.MaxCheckpoint)
	p.blob("jobs", i, "result_schema", nj.GetResultSchema(), job.MaxResultSchema)
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
	nj.checkModel(p, i)
	nj.checkFairness(p, i)
	nj.checkChain(p, i)
	p.item("jobs", i, "expire_after", checkSpan(nj.GetOptions().GetExpireAfterMs(), 0, job.MaxExpireAfter))
	if n := len(nj.GetOptions().GetParentId()); n != 0 && n != len(job.ID{}) {
		p.item("jobs", i, "parent_id", fmt.Errorf("has %d bytes; an id has %d", n, len(job.ID{})))
	}
	p.item("jobs", i, "agent", job.CheckAgent(nj.GetOptions().GetAgent())...)
	if nj.GetDefaults() > job.AllDefaults {
		p.item("jobs", i, "defaults", fmt.Errorf("%b has bits that stand for nothing", nj.GetDefaults()))
	}
}

// checkKeys checks the unique key and the debounce key with their periods. A job has at most one of the keys,
// because a unique key would find the existing job before the debounce key could postpone it.
func (nj *NewJob) checkKeys(p *problems, i int) {
	p.item("jobs", i, "unique_key", job.CheckText(nj.GetOptions().GetUniqueKey(), job.MaxUniqueKey))
	p.item("jobs", i, "debounce_key", job.CheckText(nj.GetOptions().GetDebounceKey(), job.MaxUniqueKey))
	switch {
	case nj.GetOptions().GetUniqueKey() != "":
		p.item("jobs", i, "unique_period", checkSpan(nj.Options.GetUniquePeriodMs(), 1, job.MaxUniquePeriod))
	case nj.GetOptions().GetUniquePeriodMs() != 0 || nj.GetOptions().GetUniqueWholePeriod():
		p.item("jobs", i, "unique_period", errors.New("goes with unique_key, which is missing"))
	}
	switch {
	case nj.GetOptions().GetDebounceKey() != "":
		p.item("jobs", i, "debounce", checkSpan(nj.Options.GetDebounceMs(), 1, job.MaxDebounce))
		if nj.Options.GetUniqueKey() != "" {
			p.item("jobs", i, "debounce_key", errors.New("does not go with unique_key; choose one"))
		}
		if nj.ScheduledNs != 0 {
			p.item("jobs", i, "debounce", errors.New("does not go with scheduled_at; choose one"))
		}
	case nj.GetOptions().GetDebounceMs() != 0:
		p.item("jobs", i, "debounce", errors.New("goes with debounce_key, which is missing"))
	}
}

// checkClients refuses the fields that say that a chain, a batch, a schedule or a replay made this job,
// because only ops that no client sends may set them.
func (nj *NewJob) checkClients(p *problems, i int) {
	for _, f := range [...]struct {
		name string
		said bool
	}{
		{"origin", nj.GetOrigin() != nil},
		{"previous", nj.GetPrevious() != nil},
		{"link", nj.GetLink() != nil},
		{"schedule_id", len(nj.GetOptions().GetScheduleId()) != 0},
		{"replay_of", len(nj.GetOptions().GetReplayOf()) != 0 || nj.GetOptions().GetReplayFrom() != 0},
	} {
		if f.said {
			p.item("jobs", i, f.name, errors.New("is not for clients to say"))
		}
	}
}

// checkSpan checks a duration in milliseconds.
func checkSpan(ms, least int64, most time.Duration) error {
	if ms < least || ms > most.Milliseconds() {
		return fmt.Errorf("is %d ms; it lies between %d ms and %s", ms, least, most)
	}
	return nil
}

// Opt returns the job's options for writing and creates them if needed.
func (nj *NewJob) Opt() *job.Options {
	if nj.Options == nil {
		nj.Options = &job.Options{}
	}
	return nj.Options
}
