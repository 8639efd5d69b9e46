package convert

import (
	"strings"
	"testing"

	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/dataplane/job"
)

// The list of tools is text within a message. The conversion reads it with any spacing, and refuses other
// text and a list that is too long.
func TestToolCallsOfAMessage(t *testing.T) {
	t.Parallel()
	lists := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat(`{"name":"t"},`, n), ",") + "]" }
	for _, c := range []struct {
		name, text string
		calls      int
		refused    bool
	}{
		{"none", "", 0, false},
		{"null", " null", 0, false},
		{"empty", "\n[ ]\n", 0, false},
		{"one", `[{"name":"t"}]`, 1, false},
		{"after a space", ` [{"name":"t"}]`, 1, false},
		{"on lines", "\r\n\t[\n{\"name\":\"t\"},\n{\"name\":\"t\"}\n]\n", 2, false},
		{"as many as may be", lists(job.MaxToolCalls), job.MaxToolCalls, false},
		{"one more", lists(job.MaxToolCalls + 1), 0, true},
		{"one more after a space", " " + lists(job.MaxToolCalls+1), 0, true},
		{"an object", " {}", 0, true},
		{"a text", `"t"`, 0, true},
		{"no JSON", " [", 0, true},
	} {
		var ack AckBatchItem
		err := FromRPCAckItem(&workerpb.AckBatchItem{JobId: "j", ToolCallsJson: c.text}, "w", &ack)
		if (err != nil) != c.refused || len(ack.ToolCalls) != c.calls {
			t.Errorf("%s: %d calls, %v", c.name, len(ack.ToolCalls), err)
		}
	}
}
