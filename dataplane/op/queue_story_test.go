package op_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// These are the story commands for ops on whole queues.
func init() {
	builders["clear-queue"] = func(s *story, items []item) op.Op {
		return &op.ClearQueue{Meta: s.meta(items[0]), Queue: repeated(items[0].words[0])}
	}
	builders["sweep-queue"] = (*story).sweepQueue
	builders["replenish"] = func(s *story, items []item) op.Op {
		return &op.Replenish{Meta: s.meta(items[0]), Queues: items[0].words}
	}
	builders["set-settings"] = func(s *story, items []item) op.Op {
		return &op.SetSettings{Meta: s.meta(items[0]), Settings: &state.Settings{Retention: items[0].retention(s.t)}}
	}
	builders["set-queue"] = func(s *story, items []item) op.Op {
		o := s.setQueue(items).(*op.SetQueue)
		items[0].settingsOf(s.t, o)
		return o
	}
	moreValid = append(moreValid,
		func(*world) op.Op { return &op.ClearQueue{Queue: "q"} },
		func(w *world) op.Op { id := w.newID("q"); return &op.SweepQueue{Queue: "q", JobIds: [][]byte{id[:]}} },
		func(*world) op.Op { return &op.Replenish{Queues: []string{"q"}} },
		func(*world) op.Op { return &op.SetSettings{Settings: &state.Settings{}} },
	)
}

// sweepQueue reads a queue, jobs=a,b, below= and whether they are the last.
func (s *story) sweepQueue(items []item) op.Op {
	i := items[0]
	o := &op.SweepQueue{Meta: s.meta(i), Queue: repeated(i.words[0]), Last: i.has("last"), Below: i.number(s.t, "below", 0)}
	for _, name := range strings.FieldsFunc(i.text("jobs", ""), func(r rune) bool { return r == ',' }) {
		o.JobIds = append(o.JobIds, s.jobIDs(item{words: []string{name}})...)
	}
	return o
}

// settingsOf reads rate=, window=, draining=, length=, full=, kept= and defaults
// of a set-queue.
func (i item) settingsOf(t testing.TB, o *op.SetQueue) {
	if i.says("rate") {
		limit := uint32(i.number(t, "rate", 0))
		o.RateLimit = &limit
	}
	if i.says("window") {
		ms := i.millis(t, "window", 0)
		o.RateWindowMs = &ms
	}
	if word, ok := i.settings["draining"]; ok {
		draining := word == "true"
		o.Draining = &draining
	}
	if i.says("length") {
		most := i.number(t, "length", 0)
		o.MaxLength = &most
	}
	if word, ok := i.settings["full"]; ok {
		full := job.Overflow_OVERFLOW_REJECT
		if word == "drop" {
			full = job.Overflow_OVERFLOW_DROP_OLDEST
		}
		o.Overflow = &full
	}
	if i.says("ageing") {
		ms := i.millis(t, "ageing", 0)
		o.AgeingMs = &ms
	}
	if i.says("completed") || i.says("dead") || i.says("cancelled") {
		o.Retention = i.retention(t)
	}
	if i.says("expire") {
		ms := i.millis(t, "expire", 0)
		o.Defaults = &state.QueueDefaults{ExpireAfterMs: &ms}
	}
}

// says reports whether a setting is there.
func (i item) says(name string) bool {
	_, ok := i.settings[name]
	return ok
}

func (i item) retention(t testing.TB) *job.Retention {
	return &job.Retention{CompletedMs: i.millis(t, "completed", 0), DeadMs: i.millis(t, "dead", 0), CancelledMs: i.millis(t, "cancelled", 0)}
}

// queueAnswer returns the text of an answer about a queue, or "ok" for any other.
func queueAnswer(result any) string {
	switch r := result.(type) {
	case *op.BalanceBudgetsResult:
		return fmt.Sprint(r.Balanced)
	case *op.SweepQueueResult:
		return fmt.Sprintf("removed %d", r.Removed)
	case *op.ClearQueueResult:
		return fmt.Sprintf("below %d, cleared before %d", r.Below, r.Cleared)
	case *op.DeleteQueueResult:
		if r.Deleting {
			return "deleting"
		}
	}
	return cmp.Or(bulkAnswer(result), "ok")
}

func printQueueSettings(b *strings.Builder, q *state.Queue) {
	if q.RateLimit > 0 {
		fmt.Fprintf(b, " rate %d in %s", q.RateLimit, time.Duration(q.RateWindowMs)*time.Millisecond)
	}
	for _, x := range []struct {
		is   bool
		word string
	}{{q.Draining, "draining"}, {q.Deleting, "deleting"}, {q.Overflow > 0, "drops the oldest"}} {
		if x.is {
			b.WriteString(" " + x.word)
		}
	}
	for _, x := range []struct {
		n    uint64
		word string
	}{{q.MaxLength, "length"}, {q.ClearBelow, "clear below"}, {q.Cleared, "cleared"}} {
		if x.n > 0 {
			fmt.Fprintf(b, " %s %d", x.word, x.n)
		}
	}
	if r := q.Retention; r != nil {
		fmt.Fprintf(b, " kept %d %d %d ms", r.CompletedMs, r.DeadMs, r.CancelledMs)
	}
	if q.AgeingMs > 0 {
		fmt.Fprintf(b, " ageing %d ms", q.AgeingMs)
	}
	if ms := q.GetDefaults().GetExpireAfterMs(); ms > 0 {
		fmt.Fprintf(b, " expire after %d ms", ms)
	}
}

// Each setting at its bound, and one above.
func TestQueueSettingsBounds(t *testing.T) {
	t.Parallel()
	hour := time.Hour.Milliseconds()
	for name, c := range map[string]struct {
		field string
		set   func(o *op.SetQueue, beyond int64)
	}{
		"rate": {"rate_limit", func(o *op.SetQueue, beyond int64) {
			o.RateLimit, o.RateWindowMs = val(uint32(job.MaxRateLimit+beyond)), &hour
		}},
		"shortest window": {"rate_window_ms", func(o *op.SetQueue, beyond int64) {
			o.RateLimit, o.RateWindowMs = val[uint32](1), val(job.MinRateWindow.Milliseconds()-beyond)
		}},
		"longest window": {"rate_window_ms", func(o *op.SetQueue, beyond int64) {
			o.RateLimit, o.RateWindowMs = val[uint32](1), val(job.MaxRateWindow.Milliseconds()+beyond)
		}},
		"length": {"max_length", func(o *op.SetQueue, beyond int64) { o.MaxLength = val(uint64(job.MaxQueueLength + beyond)) }},
		"overflow": {"on_full", func(o *op.SetQueue, beyond int64) {
			o.Overflow = val(job.Overflow_OVERFLOW_DROP_OLDEST + job.Overflow(beyond))
		}},
		"ageing":    {"priority_ageing", func(o *op.SetQueue, beyond int64) { o.AgeingMs = val(job.MaxAgeing.Milliseconds() + beyond) }},
		"no ageing": {"priority_ageing", func(o *op.SetQueue, beyond int64) { o.AgeingMs = val(-beyond) }},
		"retention": {"retention", func(o *op.SetQueue, beyond int64) {
			o.Retention = &job.Retention{DeadMs: job.MaxRetention.Milliseconds() + beyond}
		}},
		"for ever": {"retention", func(o *op.SetQueue, beyond int64) { o.Retention = &job.Retention{CancelledMs: job.Forever - beyond} }},
		"priority": {"defaults", func(o *op.SetQueue, beyond int64) {
			o.Defaults = &state.QueueDefaults{Priority: val(uint32(job.Priorities - 1 + beyond))}
		}},
		"attempts": {"defaults", func(o *op.SetQueue, beyond int64) {
			o.Defaults = &state.QueueDefaults{MaxAttempts: val(uint32(job.MaxAttempts + beyond))}
		}},
		"fewest attempts": {"defaults", func(o *op.SetQueue, beyond int64) {
			o.Defaults = &state.QueueDefaults{MaxAttempts: val(uint32(1 - beyond))}
		}},
		"backoff": {"defaults", func(o *op.SetQueue, beyond int64) {
			o.Defaults = &state.QueueDefaults{Backoff: val(job.BackoffExponential + job.Backoff(beyond))}
		}},
		"base delay": {"defaults", func(o *op.SetQueue, beyond int64) {
			o.Defaults = &state.QueueDefaults{BaseDelayMs: val(job.MaxRetryDelay.Milliseconds() + beyond)}
		}},
		"longest delay": {"defaults", func(o *op.SetQueue, beyond int64) {
			o.Defaults = &state.QueueDefaults{MaxDelayMs: val(job.MaxRetryDelay.Milliseconds() + beyond)}
		}},
		"jitter": {"defaults", func(o *op.SetQueue, beyond int64) {
			o.Defaults = &state.QueueDefaults{JitterPercent: val(uint32(100 + beyond))}
		}},
		"expiry": {"defaults", func(o *op.SetQueue, beyond int64) {
			o.Defaults = &state.QueueDefaults{ExpireAfterMs: val(job.MaxExpireAfter.Milliseconds() + beyond)}
		}},
	} {
		o := &op.SetQueue{Queue: "q"}
		c.set(o, 0)
		if err := o.Validate(); err != nil {
			t.Errorf("%s at its bound: %v", name, err)
		}
		c.set(o, 1)
		if err := o.Validate(); api.CodeOf(err) != api.ValidationError || !strings.Contains(err.Error(), c.field) {
			t.Errorf("%s beyond its bound: %v", name, err)
		}
	}
}

func val[T any](v T) *T { return &v }

func TestQueueOpsBounds(t *testing.T) {
	t.Parallel()
	ids := func(n int) (all [][]byte) {
		for range n {
			all = append(all, make([]byte, 16))
		}
		return all
	}
	for name, o := range map[string]func(beyond int) op.Op{
		"job_ids": func(beyond int) op.Op { return &op.SweepQueue{Queue: "q", JobIds: ids(job.MaxDutyItems + beyond)} },
		"queues": func(beyond int) op.Op {
			return &op.Replenish{Queues: strings.Fields(strings.Repeat("q ", job.MaxDutyItems+beyond))}
		},
		"settings.retention": func(beyond int) op.Op {
			r := &job.Retention{CompletedMs: job.MaxRetention.Milliseconds() + int64(beyond)}
			return &op.SetSettings{Settings: &state.Settings{Retention: r}}
		},
	} {
		if err := o(0).Validate(); err != nil {
			t.Errorf("%s at the bound: %v", name, err)
		}
		if err := o(1).Validate(); api.CodeOf(err) != api.ValidationError || !strings.Contains(err.Error(), name) {
			t.Errorf("%s beyond the bound: %v", name, err)
		}
	}
}
