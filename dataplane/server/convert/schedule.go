package convert

import (
	"cmp"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/dataplane/duties"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// missedWords are the API's words for the policies for missed runs.
var missedWords = map[string]state.Missed{
	api.MissedSkip: state.Missed_MISSED_SKIP,
	api.MissedOnce: state.Missed_MISSED_ONCE,
	api.MissedAll:  state.Missed_MISSED_ALL,
}

// FromSchedule converts a schedule and fills in defaults; the caller adds the id and the shard. NextRunNs is
// the first run after nowNs, without jitter, or 0 if the cron expression is never due again.
func FromSchedule(f *Faults, r *api.ScheduleRequest, nowNs int64, maxPayload int) *state.Schedule {
	if err := job.CheckScheduleName(r.Name); err != nil {
		f.Invalid("name", "%v", err)
	}
	if err := job.CheckQueueName(r.Queue); err != nil {
		f.Invalid("queue", "%v", err)
	}
	if err := job.CheckText(r.UniqueKey, job.MaxUniqueKey); err != nil {
		f.Invalid("unique_key", "%v", err)
	}
	payload := r.Payload
	if Absent(payload) {
		payload = emptyObject
	}
	s := &state.Schedule{
		Name:        r.Name,
		Queue:       r.Queue,
		Cron:        r.Cron,
		Timezone:    cmp.Or(r.Timezone, "UTC"),
		Payload:     blob(f, "payload", payload, maxPayload),
		UniqueKey:   r.UniqueKey,
		MaxAttempts: retry(&job.Retry{}, f, &api.EnqueueRequest{MaxRetries: r.MaxRetries}).MaxAttempts,
		Priority:    job.Normal,
		Tags:        pairs(f, "tags", r.Tags, job.CheckTags),
		Headers:     pairs(f, "headers", r.Headers, job.CheckHeaders),
		Paused:      r.Paused != nil && *r.Paused,
		JitterMs:    millis(f, "jitter", r.Jitter, 0, job.MaxScheduleJitter),
	}
	s.FairnessKey, s.FairnessWeight = fairness(f, r.FairnessKey, r.FairnessWeight)
	switch level, ok, err := r.Priority.Level(); {
	case err != nil:
		f.Invalid("priority", "%v", err)
	case ok:
		s.Priority = uint32(level)
	}
	missed, known := missedWords[cmp.Or(r.Missed, api.MissedOnce)]
	if !known {
		f.Invalid("missed", "%s is not a policy: use skip, once or all", text.Quote(r.Missed))
	}
	s.Missed = missed
	if next, _ := NextRuns(f, s, nowNs, 1); len(next) > 0 {
		s.NextRunNs = next[0].UnixNano()
	}
	return s
}

// NextRuns returns the next n runs of a schedule after nowNs, without jitter and as if the schedule were not
// paused. It returns fewer if the cron expression is not due n times any more. NextRuns reports an invalid
// time zone and an invalid cron expression as faults, and returns the first of the two errors.
func NextRuns(f *Faults, s *state.Schedule, nowNs int64, n int) (all []time.Time, err error) {
	zone, zoneErr := duties.Zone(s.Timezone)
	if zoneErr != nil {
		f.Invalid("timezone", "%v", zoneErr)
	}
	cron, cronErr := job.ParseCron(s.Cron)
	if cronErr != nil {
		f.add(api.InvalidCron, "cron", "%v", cronErr)
	}
	if err := cmp.Or(zoneErr, cronErr); err != nil {
		return nil, err
	}
	at := time.Unix(0, nowNs)
	for range n {
		if at = cron.Next(at, zone); at.IsZero() {
			break
		}
		all = append(all, at)
	}
	return all, nil
}

// ToSchedule converts a schedule to its API form. It shows no next run of a paused schedule.
func ToSchedule(s *state.Schedule) api.Schedule {
	out := api.Schedule{
		ID:         job.ScheduleIDText(job.ID(s.Id)),
		Name:       s.Name,
		Queue:      s.Queue,
		Cron:       s.Cron,
		Timezone:   s.Timezone,
		Payload:    s.Payload.GetData(),
		MaxRetries: int(s.MaxAttempts),
		Priority:   int(s.Priority),
		Tags:       stringsOf(s.Tags),
		Headers:    stringsOf(s.Headers),
		Jitter:     api.DurationOf(time.Duration(s.JitterMs) * time.Millisecond),
		Paused:     s.Paused,
		CreatedAt:  timeOf(s.CreatedNs),
	}
	if out.Tags == nil {
		out.Tags = api.Strings{}
	}
	if out.Headers == nil {
		out.Headers = api.Strings{}
	}
	if s.UniqueKey != "" {
		out.UniqueKey = &s.UniqueKey
	}
	if s.FairnessKey != "" {
		out.FairnessKey = &s.FairnessKey
	}
	if s.FairnessWeight != 0 {
		weight := int(s.FairnessWeight)
		out.FairnessWeight = &weight
	}
	for word, missed := range missedWords {
		if missed == s.Missed {
			out.Missed = word
		}
	}
	if s.LastRunNs != 0 {
		at := timeOf(s.LastRunNs)
		out.LastRun = &at
	}
	if s.NextRunNs != 0 && !s.Paused {
		at := timeOf(s.NextRunNs)
		out.NextRun = &at
	}
	return out
}
