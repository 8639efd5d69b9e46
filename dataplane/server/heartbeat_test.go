package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/server"
)

// The usage of heartbeats with one report_id is counted once.
func TestReportID(t *testing.T) {
	t.Parallel()
	n := startNode(t, func(c *server.Config) { c.Dev = true })
	n.enqueued(`{"queue":"q"}`)
	j := n.nextOf("q")
	longest := strings.Repeat("r", job.MaxReportID)
	for i, beat := range []struct {
		id    string
		total int64
	}{{"a", 1}, {"a", 1}, {longest, 2}, {longest, 2}, {"", 3}, {"", 4}} {
		body := fmt.Sprintf(`{"report_id":%q,"jobs":{%q:{"lease_token":%q,"usage":{"input_tokens":1}}}}`, beat.id, j.JobID, j.LeaseToken)
		answers[api.HeartbeatResponse](n, http.StatusOK, "POST", "/heartbeat", body)
		if got := n.document(j.JobID); got.Usage.InputTokens != beat.total {
			t.Errorf("after heartbeat %d, of %q, %d tokens are counted, want %d", i, beat.id, got.Usage.InputTokens, beat.total)
		}
	}
	refused := answers[problem](n, http.StatusBadRequest, "POST", "/heartbeat", fmt.Sprintf(`{"report_id":%q,"jobs":{}}`, longest+"r"))
	if !strings.Contains(refused.Error, "report_id has 65 bytes; at most 64") {
		t.Errorf("%+v", refused)
	}
}
