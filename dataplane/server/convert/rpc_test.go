package convert

import (
	"net/http/httptest"
	"testing"

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
