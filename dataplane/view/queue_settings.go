package view

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// queueTexts returns a queue's retention and defaults as JSON, as GET /queues shows them, or nil for settings
// that the queue does not have.
func queueTexts(q *state.Queue) (retention, defaults any, err error) {
	if r := toRetention(q.Retention); r != nil {
		text, err := json.Marshal(r)
		if err != nil {
			return nil, nil, err
		}
		retention = string(text)
	}
	if d := toDefaults(q.Defaults); d != nil {
		text, err := json.Marshal(d)
		if err != nil {
			return nil, nil, err
		}
		defaults = string(text)
	}
	return retention, defaults, nil
}

// toRetention converts a retention, and returns nil for one without any setting.
func toRetention(r *job.Retention) *api.QueueRetention {
	out := api.QueueRetention{Completed: kept(r.GetCompletedMs()), Dead: kept(r.GetDeadMs()), Cancelled: kept(r.GetCancelledMs())}
	if out == (api.QueueRetention{}) {
		return nil
	}
	return &out
}

func kept(ms int64) api.Duration {
	switch {
	case ms == 0:
		return ""
	case ms < 0:
		return api.Forever
	}
	return durationOf(ms)
}

// toDefaults converts a queue's defaults, and returns nil for defaults without any setting.
func toDefaults(d *state.QueueDefaults) *api.QueueDefaults {
	if d == nil {
		return nil
	}
	var out api.QueueDefaults
	if d.Priority != nil {
		out.Priority = api.PriorityOf(int(*d.Priority))
	}
	if d.Backoff != nil {
		out.RetryBackoff = d.Backoff.Word()
	}
	if d.ExpireAfterMs != nil {
		out.ExpireAfter = durationOf(*d.ExpireAfterMs)
	}
	out.MaxRetries, out.RetryJitterPercent = count(d.MaxAttempts), count(d.JitterPercent)
	out.RetryBaseDelay, out.RetryMaxDelay = delay(d.BaseDelayMs), delay(d.MaxDelayMs)
	if out == (api.QueueDefaults{}) {
		return nil
	}
	return &out
}

func durationOf(ms int64) api.Duration { return api.DurationOf(time.Duration(ms) * time.Millisecond) }

func count(n *uint32) *int {
	if n == nil {
		return nil
	}
	v := int(*n)
	return &v
}

func delay(ms *int64) *api.Duration {
	if ms == nil {
		return nil
	}
	d := durationOf(*ms)
	return &d
}

func onFull(o job.Overflow) string {
	if o == job.Overflow_OVERFLOW_DROP_OLDEST {
		return api.OnFullDropOldest
	}
	return api.OnFullReject
}

// queueStatus returns a queue's status in one word.
func queueStatus(q *api.Queue, draining, deleting bool) string {
	switch {
	case deleting:
		return api.QueueDeleting
	case draining && q.Active > 0:
		return api.QueueDraining
	case draining:
		return api.QueueDrained
	case q.Paused:
		return api.QueuePaused
	}
	return api.QueueActive
}

// rateText returns the events that a rate limit remembers, as JSON [[ns, count], ...], or NULL if it
// remembers none.
func rateText(r *job.RateWindow) any {
	var text []byte
	for ns, count := range r.Slices() {
		text = append(text, ",["...)
		text = strconv.AppendInt(text, ns, 10)
		text = append(text, ',')
		text = strconv.AppendUint(text, uint64(count), 10)
		text = append(text, ']')
	}
	if len(text) == 0 {
		return nil
	}
	text[0] = '['
	return string(append(text, ']'))
}
