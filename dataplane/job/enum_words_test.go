package job_test

import (
	"testing"

	"github.com/corvo/corvo/dataplane/job"
)

func TestWordsReadBack(t *testing.T) {
	t.Parallel()
	if len(job.State_name) != job.States {
		t.Errorf("there are %d states, States says %d", len(job.State_name), job.States)
	}
	for n := range job.State_name {
		s := job.State(n)
		back, ok := job.ParseState(s.Word())
		if ok != (s != 0) || back != s {
			t.Errorf("state %d is %q, which reads as %d, %v", n, s.Word(), back, ok)
		}
	}
	for n := range job.Backoff_name {
		b := job.Backoff(n)
		back, ok := job.ParseBackoff(b.Word())
		if ok != (b != 0) || back != b {
			t.Errorf("backoff %d is %q, which reads as %d, %v", n, b.Word(), back, ok)
		}
	}
	for p := range uint32(job.Priorities) {
		if back, ok := job.ParsePriority(job.PriorityWord(p)); !ok || back != p {
			t.Errorf("priority %d is %q, which reads as %d, %v", p, job.PriorityWord(p), back, ok)
		}
	}
}

func TestUnknownWords(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"", "PENDING", "state(9)", "urgent"} {
		if s, ok := job.ParseState(word); ok {
			t.Errorf("%q reads as state %d", word, s)
		}
		if b, ok := job.ParseBackoff(word); ok {
			t.Errorf("%q reads as backoff %d", word, b)
		}
		if p, ok := job.ParsePriority(word); ok {
			t.Errorf("%q reads as priority %d", word, p)
		}
	}
	for got, want := range map[string]string{
		job.State(9).Word():           "state(9)",
		job.State(-1).Word():          "state(-1)",
		job.Backoff(5).Word():         "backoff(5)",
		job.PriorityWord(3):           "priority(3)",
		job.Event(200).String():       "event(200)",
		job.OnReclaimLast.String():    "reclaim last",
		job.State_STATE_HELD.Word():   "held",
		job.BackoffExponential.Word(): "exponential",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
