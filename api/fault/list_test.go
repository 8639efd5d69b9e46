package fault_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fault"
)

func refusal(t *testing.T, l *fault.List) (*api.Error, []api.FieldError) {
	t.Helper()
	var e *api.Error
	if !errors.As(l.Err(), &e) {
		t.Fatalf("%v is no *api.Error", l.Err())
	}
	fields, _ := e.Details["fields"].([]api.FieldError)
	return e, fields
}

func TestAnEmptyListIsNoError(t *testing.T) {
	t.Parallel()
	var l fault.List
	if err := l.Err(); err != nil || l.Any() {
		t.Errorf("faults of nothing: %v", err)
	}
}

func TestNoFaultIsLost(t *testing.T) {
	t.Parallel()
	var l fault.List
	l.Add(api.CrossShard, "queues", "lie on several shards")
	if e, fields := refusal(t, &l); !l.Any() || e.Code != api.CrossShard || len(fields) != 1 {
		t.Errorf("%+v", e)
	}
	l.Add(api.Unsupported, "other", "is not built")
	if e, fields := refusal(t, &l); e.Code != api.Unsupported || len(fields) != 2 {
		t.Errorf("%+v", e)
	}
}

func TestTheGravestFaultGivesTheCode(t *testing.T) {
	t.Parallel()
	var l fault.List
	for _, code := range []api.Code{api.Unsupported, api.InvalidCron, api.InvalidFilter, api.PayloadTooLarge, api.ValidationError} {
		l.Add(code, "of "+string(code), "is bad")
		l.Add(api.Unsupported, "lesser", "is not built")
		if e, _ := refusal(t, &l); e.Code != code {
			t.Errorf("the code is %s, want %s", e.Code, code)
		}
	}
}

func TestFieldsAreListedInOrder(t *testing.T) {
	t.Parallel()
	var l fault.List
	for _, field := range []string{"tags", "jobs[10].queue", "jobs[9].queue", "jobs[9].payload", "delay"} {
		l.Invalid(field, "is %s", "bad")
	}
	l.Invalid("tags", "is bad once more")
	l.Detail("position", 7)
	e, fields := refusal(t, &l)
	want := []api.FieldError{{Field: "delay", Error: "is bad"}, {Field: "jobs[9].payload", Error: "is bad"}, {Field: "jobs[9].queue", Error: "is bad"}, {Field: "jobs[10].queue", Error: "is bad"}, {Field: "tags", Error: "is bad"}}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Error(diff)
	}
	if message := "delay is bad; jobs[9].payload is bad; jobs[9].queue is bad; and 2 more"; e.Message != message {
		t.Errorf("the message is %q, want %q", e.Message, message)
	}
	if e.Details["position"] != 7 {
		t.Errorf("the details are %v", e.Details)
	}
}

func TestTheListIsBounded(t *testing.T) {
	t.Parallel()
	var l fault.List
	for i := range fault.MaxListed {
		l.Invalid(fmt.Sprintf("f[%d]", i), "is bad")
	}
	if e, fields := refusal(t, &l); len(fields) != fault.MaxListed || !strings.HasSuffix(e.Message, "; and 97 more") {
		t.Errorf("%d fields, %q", len(fields), e.Message)
	}
	l.Invalid("one", "is bad")
	l.Invalid("f[0]", "is bad again")
	if e, fields := refusal(t, &l); len(fields) != fault.MaxListed || !strings.HasSuffix(e.Message, "; and 98 more") {
		t.Errorf("%d fields, %q", len(fields), e.Message)
	}
}
