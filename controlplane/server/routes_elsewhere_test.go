package server

import (
	"strings"
	"testing"
)

// A client that sends a data-plane request to the control plane receives the gateway's URL.
func TestTheDataPlaneIsElsewhere(t *testing.T) {
	t.Parallel()
	f := startFront(t)
	for _, c := range []struct{ method, path string }{
		{"POST", "/api/v1/enqueue"}, {"GET", "/api/v1/queues"}, {"DELETE", "/api/v1/jobs/j"}, {"POST", "/corvo.v1.WorkerService/Fetch"},
	} {
		if a := f.send(c.method, c.path, "", "", "Content-Type: application/json"); a.status != 404 || !strings.Contains(string(a.body), "http://gateway.test") || !strings.Contains(strings.ToUpper(string(a.body)), "NOT_FOUND") {
			t.Errorf("%s %s: %d %s", c.method, c.path, a.status, a.body)
		}
	}
}
