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

// An operator sees in the table which copy is the furthest, in all shards or in some.
func TestClustersShowTheFurthestCopy(t *testing.T) {
	t.Parallel()
	const members = `{"host":"host_1","host_name":"h1","last":[%s]},{"host":"host_2","host_name":"h2","last":[%s]},{"host":"host_3"}`
	at := func(term, index int) string { return fmt.Sprintf(`{"shard":0,"term":%d,"index":%d}`, term, index) }
	for want, last := range map[string][2]string{
		"h1: 9 (term 3) (furthest), h2: 8 (term 3), host_3: not reported":            {at(3, 9), at(3, 8)},
		"h1: 9 (term 3), h2: 8 (term 4) (furthest), host_3: not reported":            {at(3, 9), at(4, 8)},
		"h1: 9 (term 3) (furthest), h2: 9 (term 3) (furthest), host_3: not reported": {at(3, 9), at(3, 9)},
		"h1: 9 (term 3) / 5 (term 2) (furthest in shard 0), h2: 8 (term 3) / 6 (term 2) (furthest in shard 1), host_3: not reported": {
			at(3, 9) + `,{"shard":1,"term":2,"index":5}`, at(3, 8) + `,{"shard":1,"term":2,"index":6}`,
		},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"id":"ns_1","name":"orders","status":{"members":[`+members+`]}}`, last[0], last[1])
		}))
		a := corvo(t, []string{"CORVO_ENDPOINT=" + server.URL, "CORVO_CLOUD_TOKEN=t"}, "cloud", "clusters", "show", "ns_1")
		server.Close()
		if a.code != 0 || !strings.Contains(a.stdout, want+"\n") {
			t.Errorf("%d %s%s, want %q", a.code, a.stdout, a.stderr, want)
		}
	}
}

// A command that lacks flags names all of them, and asks nobody.
func TestMissingFlagsOfClusters(t *testing.T) {
	t.Parallel()
	env := []string{"CORVO_ENDPOINT=http://127.0.0.1:1", "CORVO_CLOUD_TOKEN=t"}
	for command, flags := range map[string][]string{"move": {"--from", "--to"}, "recover": {"--from", "--accept-loss"}} {
		a := corvo(t, env, "cloud", "clusters", command, "ns_1")
		for _, flag := range flags {
			if a.code != 2 || !strings.Contains(a.stderr, flag+" is missing") {
				t.Errorf("%s: %d %s, want 2 and %s", command, a.code, a.stderr, flag)
			}
		}
	}
}
