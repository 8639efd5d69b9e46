package convert

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fault"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

func enqueueOf(t *testing.T, body string) (*op.NewJob, error) {
	t.Helper()
	var b EnqueueBody
	if err := into([]byte(body), &b); err != nil {
		t.Fatal(err)
	}
	var f Faults
	n := FromEnqueue(&f, &b, fuzzNow, job.DefaultMaxPayload)
	return n, f.Err()
}

func TestEnqueueDefaults(t *testing.T) {
	t.Parallel()
	got, err := enqueueOf(t, `{"queue":"q"}`)
	if err != nil {
		t.Fatal(err)
	}
	want := &op.NewJob{
		Queue: "q", Payload: &job.Blob{Data: []byte("{}")}, Priority: job.Normal,
		Retry:    &job.Retry{MaxAttempts: 3, Backoff: job.BackoffExponential, BaseDelayMs: 5000, MaxDelayMs: 600_000},
		Defaults: job.AllDefaults,
	}
	if !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestEnqueueInFull(t *testing.T) {
	t.Parallel()
	at := time.Unix(0, fuzzNow).Add(time.Hour)
	got, err := enqueueOf(t, `{"queue":"q","payload": [1, 2] ,"priority":"critical","max_retries":7,"retry_backoff":"none","retry_base_delay":"1s","retry_max_delay":"1m",
		"scheduled_at":"`+string(api.TimeOf(at))+`","tags":{"b":"2","a":"1"},"headers":{"x":""},"checkpoint":"c"}`)
	if err != nil {
		t.Fatal(err)
	}
	want := &op.NewJob{
		Queue: "q", Payload: &job.Blob{Data: []byte("[1, 2]")}, Priority: job.Critical,
		Retry:       &job.Retry{MaxAttempts: 7, Backoff: job.BackoffNone, BaseDelayMs: 1000, MaxDelayMs: 60_000},
		ScheduledNs: at.UnixNano(),
		Tags:        []*job.Pair{{Name: "a", Value: "1"}, {Name: "b", Value: "2"}},
		Headers:     []*job.Pair{{Name: "x"}},
		Checkpoint:  &job.Blob{Data: []byte(`"c"`)},
		Defaults:    job.DefaultsJitter | job.DefaultsExpireAfter,
	}
	if !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// If a request sets one of the two delays, that delay wins over the default of the other.
func TestRetryDelays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		base, most    api.Duration
		baseMs, mosts int64
	}{
		{"", "", 5000, 600_000},
		{"20m", "", 1_200_000, 1_200_000},
		{"", "1s", 1000, 1000},
		{"0s", "0s", 0, 0},
		{"8760h", "", job.MaxRetryDelay.Milliseconds(), job.MaxRetryDelay.Milliseconds()},
	} {
		var f Faults
		got := retry(&job.Retry{}, &f, &api.EnqueueRequest{RetryBaseDelay: c.base, RetryMaxDelay: c.most})
		if f.Err() != nil || got.BaseDelayMs != c.baseMs || got.MaxDelayMs != c.mosts {
			t.Errorf("%q, %q: %v, %v", c.base, c.most, got, f.Err())
		}
	}
}

// The conversion accepts a due time up to its bound, on the proposer's clock.
func TestSchedule(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, fuzzNow)
	most := now.Add(job.MaxSchedule)
	for _, c := range []struct {
		at   api.Time
		want int64
		ok   bool
	}{
		{"", 0, true},
		{api.TimeOf(now), 0, true},
		{api.TimeOf(now.Add(1)), fuzzNow + 1, true},
		{"0001-01-01T00:00:00Z", 0, true},
		{api.TimeOf(most), most.UnixNano(), true},
		{api.TimeOf(most.Add(1)), 0, false},
		{"9999-12-31T23:59:59Z", 0, false},
	} {
		var f Faults
		if got := scheduledNs(&f, "scheduled_at", c.at, fuzzNow); got != c.want || (f.Err() == nil) != c.ok {
			t.Errorf("%q is %d, %v", c.at, got, f.Err())
		}
	}
}

func TestFetchDefaults(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]Fetch{
		`{"queues":["a","b","a"]}`:                           {Queues: []string{"a", "b"}, Wait: 29500 * time.Millisecond, LeaseMs: 60_000, Count: 1},
		`{"queues":["a"],"timeout":0,"count":null}`:          {Queues: []string{"a"}, LeaseMs: 60_000, Count: 1},
		`{"queues":["a"],"timeout":1,"count":512}`:           {Queues: []string{"a"}, Wait: 500 * time.Millisecond, LeaseMs: 60_000, Count: 512},
		`{"queues":["a"],"timeout":60,"lease_duration":1}`:   {Queues: []string{"a"}, Wait: 59500 * time.Millisecond, LeaseMs: 1000, Count: 1},
		`{"queues":["a"],"timeout":3600,"count":1000000}`:    {Queues: []string{"a"}, Wait: 59500 * time.Millisecond, LeaseMs: 60_000, Count: 512},
		`{"queues":["a"],"lease_duration":86400,"count":1}`:  {Queues: []string{"a"}, Wait: 29500 * time.Millisecond, LeaseMs: 86_400_000, Count: 1},
		`{"queues":["a"],"lease_duration":0,"timeout":null}`: {Queues: []string{"a"}, Wait: 29500 * time.Millisecond, LeaseMs: 60_000, Count: 1},
	} {
		var b api.FetchBatchRequest
		if err := into([]byte(body), &b); err != nil {
			t.Fatal(err)
		}
		var f Faults
		got := FromFetchBatch(&f, &b)
		if f.Err() != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s is %+v, %v", body, got, f.Err())
		}
	}
}

// The fields of a move besides its queue are truth values. FromMoveJob refuses others.
func TestFromMoveJob(t *testing.T) {
	t.Parallel()
	for fields, want := range map[string]*op.MoveJobs{
		`"reset_attempts":false,"keep_priority":true`: {Queue: "q"},
		`"reset_attempts":null,"keep_priority":null`:  {Queue: "q"},
		`"reset_attempts":"","keep_priority":""`:      {Queue: "q"},
		`"reset_attempts":true`:                       {Queue: "q", ResetAttempts: true},
		`"keep_priority":false`:                       {Queue: "q", DropPriority: true},
		`"reset_attempts":"yes"`:                      nil,
		`"reset_attempts":0`:                          nil,
		`"keep_priority":"no"`:                        nil,
		`"keep_priority":1`:                           nil,
	} {
		var f Faults
		var b api.MoveJobRequest
		err := into([]byte(`{"queue":"q",`+fields+`}`), &b)
		if want == nil {
			if api.CodeOf(err) != api.ValidationError {
				t.Errorf("%s: %v", fields, err)
			}
			continue
		}
		if got := FromMoveJob(&f, &b); err != nil || f.Any() || !proto.Equal(got, want) {
			t.Errorf("%s: %v, %v", fields, got, err)
		}
	}
}

// The gravest fault decides the code. The error lists all faults, up to a bound.
func TestFaults(t *testing.T) {
	t.Parallel()
	var f Faults
	if f.Err() != nil || f.Any() {
		t.Error("faults out of nothing")
	}
	check := func(code api.Code, fields int, text string) {
		t.Helper()
		var e *api.Error
		if !errors.As(f.Err(), &e) || e.Code != code || !strings.Contains(e.Message, text) {
			t.Fatalf("%v, want %s and %q", f.Err(), code, text)
		}
		if n := len(e.Details["fields"].([]api.FieldError)); n != fields {
			t.Errorf("%d fields, want %d", n, fields)
		}
	}
	f.Unsupported("z")
	check(api.Unsupported, 1, "z is not supported")
	f.TooLong("payload", 3, 2)
	check(api.PayloadTooLarge, 2, "payload has 3 bytes")
	f.scope = scope{list: "jobs", index: 4}
	f.Invalid("queue", "is missing")
	f.Invalid("queue", "is said twice")
	check(api.ValidationError, 3, "jobs[4].queue is missing")
	f.scope = scope{}
	for i := range fault.MaxListed {
		f.Invalid(fmt.Sprint("f", i), "is bad")
	}
	check(api.ValidationError, fault.MaxListed, "; and 100 more")
}

func TestUsageIsExact(t *testing.T) {
	t.Parallel()
	var b AckBody
	if err := into([]byte(`{"usage":{"input_tokens":3,"model":"m","cost_usd":123456789.000000001}}`), &b); err != nil {
		t.Fatal(err)
	}
	var f Faults
	got := FromAck(&f, fuzzID, &b)
	if err := f.Err(); err != nil {
		t.Fatal(err)
	}
	want := &job.Usage{CostNanoUsd: 123456789_000000001, CostReported: true, InputTokens: 3, Model: "m"}
	if diff := cmp.Diff(want, got.Usage, protocmp.Transform()); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

func TestLeaseTokens(t *testing.T) {
	t.Parallel()
	token := []byte("0123456789abcdef")
	text := string(appendLeaseToken(nil, token))
	var back [job.TokenSize]byte
	if err := parseLeaseToken(&back, text); err != nil || !slices.Equal(back[:], token) {
		t.Errorf("%x, %v", back, err)
	}
	for _, bad := range []string{"0", "zz", text[2:], text + "00", strings.Repeat("x", 32), strings.Repeat("x", 10_000)} {
		if err := parseLeaseToken(&back, bad); err == nil || len(err.Error()) > 300 {
			t.Errorf("%.40q: %v", bad, err)
		}
	}
}
