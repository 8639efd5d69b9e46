package event_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/dataplane/state/event"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

const now = 1_700_000_000_000_000_000

// known is a source with one record of each kind, which it returns for every event.
type known struct {
	job     *job.Job
	blob    *job.Blob
	err     *job.AttemptError
	batch   *state.Batch
	account *state.Account
	alert   *state.Alert
	webhook *state.Resource
}

func (k *known) Job(job.ID) (*job.Job, error)       { return k.job, nil }
func (k *known) Progress(job.ID) (*job.Blob, error) { return k.blob, nil }
func (k *known) AttemptError(_ job.ID, n uint32) (*job.AttemptError, error) {
	if k.err.GetAttempt() != n {
		return nil, nil
	}
	return k.err, nil
}
func (k *known) Batch([16]byte) (*state.Batch, error)       { return k.batch, nil }
func (k *known) Account([16]byte) (*state.Account, error)   { return k.account, nil }
func (k *known) Alert([16]byte) (*state.Alert, error)       { return k.alert, nil }
func (k *known) Declared([16]byte) (*state.Resource, error) { return k.webhook, nil }

var id = job.ID{1, 2, 3, 15: 9}

const shortText = "a \"text\"\x01\n"

// everything returns a source that knows every field of an event of the type. fill makes its texts.
func everything(t state.EventType, fill func(most int) string) *known {
	j := &job.Job{
		Id: id[:], Queue: "mail", State: job.Active, Attempt: 2,
		Retry:       &job.Retry{MaxAttempts: 3, Backoff: job.BackoffFixed, BaseDelayMs: 5000, MaxDelayMs: 60000},
		ScheduledNs: now + 5e9, StartedNs: now, CompletedNs: now, FailedNs: now,
		Lease:   &job.Lease{WorkerId: fill(job.MaxWorkerID), Hostname: fill(job.MaxWorkerID)},
		Batch:   &job.Membership{BatchId: id[:]},
		Chain:   &job.ChainLink{ChainId: id[:], Step: 1},
		Options: &job.Options{ParentId: id[:], ScheduleId: id[:], ReplayOf: id[:]},
		Detail: &job.Detail{
			Iteration: 3, Hold: job.Hold_HOLD_BUDGET,
			HoldBy: fill(job.MaxResourceName), HoldReason: fill(job.MaxHoldReason),
		},
	}
	switch t {
	case state.EventType_EVENT_SCHEDULED, state.EventType_EVENT_DEBOUNCED:
		j.State, j.Attempt = job.Scheduled, 0
	case state.EventType_EVENT_FAILED, state.EventType_EVENT_RECLAIMED, state.EventType_EVENT_RETRYING:
		j.State = job.Retrying
	case state.EventType_EVENT_HELD, state.EventType_EVENT_BUDGET_EXCEEDED:
		j.State = job.Held
	}
	return &known{
		job:     j,
		blob:    &job.Blob{Data: []byte(`{"of": ` + "\n" + `"` + strings.Repeat("<", job.MaxProgress/2) + `"}`)},
		err:     &job.AttemptError{Attempt: 2, CreatedNs: now, Error: fill(job.MaxErrorText), WorkerId: fill(job.MaxWorkerID)},
		batch:   &state.Batch{Id: id[:], Queue: "mail", CallbackQueue: "done", Total: 3, Succeeded: 2, Failed: 1, CallbackJobId: id[:]},
		account: &state.Account{Name: "queue/mail", Spent: []*state.Spent{{Alerted: 50}, {Alerted: 80}}},
		alert:   &state.Alert{Name: "alert_1", Value: 120, SinceNs: now},
		webhook: &state.Resource{Name: "hook_1"},
	}
}

// about returns an event of the type as the feed holds it.
func about(t state.EventType) *state.Event {
	e := &state.Event{Type: t, Queue: "mail", FromQueue: "post"}
	switch t {
	case state.EventType_EVENT_BATCH_COMPLETED:
		e.Queue, e.RecordId = "done", id[:]
	case state.EventType_EVENT_BUDGET_ALERT, state.EventType_EVENT_ALERT_FIRED, state.EventType_EVENT_ALERT_RESOLVED, state.EventType_EVENT_WEBHOOK_DISABLED:
		e.Queue, e.RecordId = "", id[:]
	case state.EventType_EVENT_QUEUE_PAUSED, state.EventType_EVENT_QUEUE_RESUMED, state.EventType_EVENT_QUEUE_CLEARED, state.EventType_EVENT_QUEUE_DELETED:
	default:
		e.JobId, e.Attempt = id[:], 2
	}
	switch t {
	case state.EventType_EVENT_SCORED:
		e.Score = &job.Score{Dimension: shortText, Value: 0.5, Scorer: shortText, CreatedNs: now}
	case state.EventType_EVENT_USAGE_REJECTED:
		e.Usage = &job.Usage{
			InputTokens: -1, OutputTokens: 2, CacheCreationTokens: 3, CacheReadTokens: math.MaxInt64, Model: "m", Provider: "p",
			CostNanoUsd: math.MaxInt64, CostReported: true, Rejected: job.RejectedNegative,
		}
	}
	return e
}

// told returns the types of the events that clients receive.
func told() (list []state.EventType) {
	for t := range len(state.EventType_name) {
		if _, ok := event.Word(state.EventType(t)); ok {
			list = append(list, state.EventType(t))
		}
	}
	return list
}

// TestGolden pins the form in which clients receive each event: its word, the members of its data if the
// source knows everything, and an example.
func TestGolden(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	short := func(int) string { return shortText }
	for _, kind := range told() {
		for range 2 { // the same bytes again
			e, ok, err := event.Compose(everything(kind, short), 7, now, about(kind))
			if err != nil || !ok || !json.Valid(e.Data) {
				t.Fatalf("%s: %v, %v: %s", kind, ok, err, e.Data)
			}
		}
		e, _, _ := event.Compose(everything(kind, short), 7, now, about(kind))
		if !slices.Contains(event.Types, e.Type) {
			t.Errorf("%s is none of the types", e.Type)
		}
		if len(e.Data) > 300 {
			e.Data = append(e.Data[:100:100], "..."...)
		}
		fmt.Fprintf(&got, "%-16s %-20s %s %s %s\n", e.Type, strings.TrimPrefix(kind.String(), "EVENT_"), e.JobID, e.Queue, e.Data)
	}
	const path = "testdata/events.golden"
	if *rewrite {
		if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("events differ from %s; run with -rewrite if that is meant:\n%s", path, got.String())
	}
}

// TestContract checks that no promised word is missing.
func TestContract(t *testing.T) {
	t.Parallel()
	for _, word := range strings.Fields(`enqueued scheduled started progress checkpointed failed retrying completed
		continued held approved rejected cancelled cancelling dead expired reclaimed moved deleted unique_duplicate
		batch_completed chain_advanced queue_paused queue_resumed queue_cleared budget_alert budget_exceeded`) {
		if !slices.Contains(event.Types, word) {
			t.Errorf("no event is %q", word)
		}
	}
}

// TestBound makes every text as long as its limit, of the characters that take most room in JSON.
func TestBound(t *testing.T) {
	t.Parallel()
	longest := func(most int) string { return strings.Repeat("\x01", most) }
	for _, kind := range told() {
		from, fed := everything(kind, longest), about(kind)
		if fed.Score != nil {
			fed.Score.Dimension, fed.Score.Scorer = longest(job.MaxScoreWord), longest(job.MaxScoreWord)
		}
		e, _, err := event.Compose(from, 1<<63, now, fed)
		if err != nil {
			t.Fatal(err)
		}
		line, err := json.Marshal(e)
		if err != nil || len(line) >= 60<<10 {
			t.Errorf("%s: a line of %d bytes (%v)", kind, len(line), err)
		}
	}
	// A text beyond every limit leaves its member out, and the others stay.
	from := everything(state.EventType_EVENT_FAILED, longest)
	from.err.Error = strings.Repeat("\x01", job.MaxErrorText+job.MaxEventData)
	e, _, err := event.Compose(from, 1, now, about(state.EventType_EVENT_FAILED))
	if err != nil || strings.Contains(string(e.Data), `"error"`) || !strings.Contains(string(e.Data), `"next_attempt_at"`) {
		t.Errorf("%v: %.200s", err, e.Data)
	}
}

// TestNothingIsInvented composes events whose jobs are gone or have changed since.
func TestNothingIsInvented(t *testing.T) {
	t.Parallel()
	for _, kind := range told() {
		e, ok, err := event.Compose(&known{}, 7, now, about(kind))
		if err != nil || !ok {
			t.Fatalf("%s: %v, %v", kind, ok, err)
		}
		if kind == state.EventType_EVENT_USAGE_REJECTED || kind == state.EventType_EVENT_SCORED {
			continue // the event itself has the report or the score
		}
		var data map[string]any
		if err := json.Unmarshal(e.Data, &data); err != nil {
			t.Fatal(err)
		}
		for name := range data {
			if !slices.Contains([]string{"attempt", "from_queue", "reason", "batch_id"}, name) {
				t.Errorf("%s: nobody knows its %s: %s", kind, name, e.Data)
			}
		}
		// A later attempt has taken the place of the one the event is about.
		later := everything(kind, func(int) string { return "later" })
		later.job.Attempt, later.job.AttemptBase, later.job.StartedNs, later.job.CompletedNs, later.job.FailedNs = 3, 2, now+1, now+1, now+1
		later.job.State, later.err.CreatedNs = job.Active, now+1
		later.alert.SinceNs = now + 1
		e, _, err = event.Compose(later, 7, now, about(kind))
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"later", "progress", "_at"} {
			if strings.Contains(string(e.Data), word) {
				t.Errorf("%s tells of %q, which came later: %s", kind, word, e.Data)
			}
		}
	}
}

// TestEarlierAttempts composes events of an attempt after which others have come, from its error and the
// retry policy.
func TestEarlierAttempts(t *testing.T) {
	t.Parallel()
	const began, due = `{"attempt":2,"worker_id":"w"}`, `{"attempt":2,"next_attempt_at":"2023-11-14T22:13:25Z"}`
	for name, c := range map[string]struct {
		change            func(*known)
		started, retrying string
	}{
		"its error is kept":            {func(*known) {}, began, due},
		"none is":                      {func(k *known) { k.err = nil }, `{"attempt":2}`, `{"attempt":2}`},
		"another start had its number": {func(k *known) { k.err.StartedNs++ }, `{"attempt":2}`, due},
		"another life had its number":  {func(k *known) { k.err.StartedNs++; k.err.CreatedNs++ }, `{"attempt":2}`, `{"attempt":2}`},
		"attempts were granted since":  {func(k *known) { k.job.AttemptBase = 2 }, began, `{"attempt":2}`},
		"or before":                    {func(k *known) { k.job.AttemptBase, k.job.Retry.MaxAttempts = 1, 2 }, began, due},
		"it was the last":              {func(k *known) { k.job.Retry.MaxAttempts = 2 }, began, `{"attempt":2}`},
	} {
		from := everything(state.EventType_EVENT_STARTED, func(int) string { return "w" })
		from.job.Attempt, from.job.StartedNs, from.job.FailedNs, from.job.ScheduledNs = 5, now+1, now+1, now+1
		from.err.StartedNs = now
		c.change(from)
		for kind, want := range map[state.EventType]string{state.EventType_EVENT_STARTED: c.started, state.EventType_EVENT_RETRYING: c.retrying} {
			if e, _, err := event.Compose(from, 7, now, about(kind)); err != nil || string(e.Data) != want {
				t.Errorf("%s: %s is %s, %v; want %s", name, kind, e.Data, err, want)
			}
		}
	}
}

// TestProgress checks that an event shows only a progress document that is valid JSON and not sealed.
func TestProgress(t *testing.T) {
	t.Parallel()
	from := everything(state.EventType_EVENT_PROGRESS, func(int) string { return "" })
	for _, test := range []struct{ data, key, want string }{
		{`{ "a b" : [ 1 , "\" \n" ] }`, "", `{"attempt":2,"progress":{"a b":[1,"\" \n"]}}`},
		{`{"a`, "", `{"attempt":2}`},
		{"{\n}", "sealed", `{"attempt":2}`},
	} {
		from.blob = &job.Blob{Data: []byte(test.data), KeyId: test.key}
		e, _, err := event.Compose(from, 1, now, about(state.EventType_EVENT_PROGRESS))
		if err != nil || string(e.Data) != test.want {
			t.Errorf("%s: %s, %v", test.data, e.Data, err)
		}
	}
}
