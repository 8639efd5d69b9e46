package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// A command that waits for a move ends when the list of members is in effect, when the target is no member any more, or when
// its time is over.
func TestWaitForAMove(t *testing.T) {
	t.Parallel()
	const (
		moving = `"generation":2,"status":{"observed_generation":1,"waiting":"h2 copies","members":[{"host":"host_2","host_name":"h2"},{"host":"host_1","host_name":"h1","leaving":true}]}`
		moved  = `"generation":2,"status":{"observed_generation":2,"members":[{"host":"host_2","host_name":"h2"}]}`
		chosen = `"generation":3,"status":{"observed_generation":2,"members":[{"host":"host_3","host_name":"h3"},{"host":"host_2","host_name":"h2","leaving":true}]}`
	)
	for _, c := range []struct {
		name, to, then, timeout string
		code                    int
		says                    string
	}{
		{"it ends", "h2", moved, "0", 0, "moved"},
		{"it ends, by id", "host_2", moved, "0", 0, "moved"},
		{"the control plane chooses another host", "h2", chosen, "0", 1, "has no member on host h2 any more"},
		{"it takes too long", "h2", moving, "10ms", 3, "is not in effect yet, and goes on: h2 copies"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var reads atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.Method + " " + r.URL.Path {
				case "POST /cloud/v1/clusters/ns_1/move":
					fmt.Fprint(w, `{"status":"moving"}`)
				case "GET /cloud/v1/clusters/ns_1":
					status := moving
					if reads.Add(1) > 1 {
						status = c.then
					}
					fmt.Fprint(w, `{"id":"ns_1","name":"orders",`+status+`}`)
				default:
					t.Error(r.Method, r.URL)
				}
			}))
			t.Cleanup(server.Close)
			env := []string{"CORVO_ENDPOINT=" + server.URL, "CORVO_CLOUD_TOKEN=t"}
			a := corvo(t, env, "cloud", "clusters", "move", "ns_1", "--from", "h1", "--to", c.to, "--wait", "--timeout", c.timeout)
			if a.code != c.code || !strings.Contains(a.stdout+a.stderr, c.says) {
				t.Errorf("%d %s%s, want %d with %q", a.code, a.stdout, a.stderr, c.code, c.says)
			}
		})
	}
}
