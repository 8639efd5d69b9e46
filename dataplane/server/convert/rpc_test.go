package convert

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/dataplane/job"
)

// TestADocumentOfAMessageIsThatOfABody checks that space around a document in a message does not count. An HTTP
// body is decoded without it, and JSON's first byte decides about null and about objects.
func TestADocumentOfAMessageIsThatOfABody(t *testing.T) {
	t.Parallel()
	const chain = `{"chain": {"steps": [{"queue": "q"}, {"queue": "next"}]}}`
	for _, test := range []struct{ payload, options, want string }{
		{" \t\r\n{\"a\": 1} \n", "", `{"a": 1}`},
		{` {"a": 1}`, chain, `{"a": 1}`},
		{" null ", "", "{}"},
		{" null", chain, "{}"},
		{` {"a": 1} `, "\n" + chain + "\n", `{"a": 1}`},
	} {
		m := &workerpb.EnqueueRequest{Queue: "q", PayloadJson: test.payload, OptionsJson: test.options}
		jobs, _, err := FromRPCEnqueues(httptest.NewRequest("POST", "/", nil), []*workerpb.EnqueueRequest{m}, 0, job.MaxPayload)
		if err != nil {
			t.Errorf("%q with %q: %v", test.payload, test.options, err)
		} else if got := string(jobs[0].Payload.Data); got != test.want {
			t.Errorf("%q with %q is stored as %q, want %q", test.payload, test.options, got, test.want)
		}
	}
	for _, space := range []string{" ", "\n\n"} {
		if raw := rawText(&Faults{}, "payload_json", space); raw != nil {
			t.Errorf("%q is %q", space, raw)
		}
	}
}

// TestFaultsOfAFrameNameItsFields checks the names and the code of faults in lists that only a frame of the
// worker protocol has.
func TestFaultsOfAFrameNameItsFields(t *testing.T) {
	t.Parallel()
	bad := []*workerpb.EnqueueRequest{{Queue: "q"}, {Queue: "no name"}}
	_, _, err := FromRPCEnqueues(httptest.NewRequest("POST", "/", nil), bad, 0, job.MaxPayload)
	if err == nil || !strings.Contains(err.Error(), "enqueues[1].queue") {
		t.Errorf("a bad name of a queue: %v", err)
	}
	_, _, err = FromRPCEnqueues(httptest.NewRequest("POST", "/", nil), nil, 0, job.MaxPayload)
	if err == nil || !strings.Contains(err.Error(), "enqueues has 0 entries") {
		t.Errorf("no job: %v", err)
	}

	var f Faults
	toolCalls(&f, "["+strings.Repeat(`{"name":"","queue":""},`, 20_000)+"{}]")
	var refused *api.Error
	if !errors.As(f.Err(), &refused) || refused.Code != api.PayloadTooLarge || refused.Details["max_decoded_bytes"] == nil {
		t.Errorf("tool calls that decode to too much: %v", f.Err())
	}
}
