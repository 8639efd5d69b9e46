package main

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/corvo/corvo/api/client"
)

// TestOperatorsErrorsSayWhatToDo checks the advice of errors that an operator of a fleet meets.
func TestOperatorsErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	follower := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"code":"LEADER_UNAVAILABLE","error":"this process does not lead","details":{"leader_addr":"https://control-2:8081"}}`))
	})
	plain, secure := httptest.NewServer(follower), httptest.NewTLSServer(follower)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	for _, c := range []struct {
		name, endpoint, command string
		code                    int
		says                    string
	}{
		{"a follower names the leader", plain.URL, "cloud hosts", 1, "the leader is at https://control-2:8081"},
		{"a server of another fleet", secure.URL, "cloud hosts", 1, "SSL_CERT_FILE"},
		{"a bound of no wait, of a drain", plain.URL, "cloud hosts drain h --timeout 1s", 2, "--timeout needs --wait"},
		{"a bound of no wait, of a move", plain.URL, "cloud clusters move ns_1 --from a --to b --timeout 1s", 2, "--timeout needs --wait"},
		{"a negative bound", plain.URL, "cloud hosts drain h --wait --timeout -1s", 2, "--timeout is -1s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := corvo(t, []string{"CORVO_ENDPOINT=" + c.endpoint, "CORVO_CLOUD_TOKEN=t"}, strings.Fields(c.command)...)
			if a.code != c.code || !strings.Contains(a.stderr, c.says) {
				t.Errorf("%d %s%s, want %d with %q", a.code, a.stdout, a.stderr, c.code, c.says)
			}
		})
	}
}

// TestEnqueueWaitsForAServerThatStarts checks that a command waits for a server that refuses it for a while, and ends with
// advice if the server asks for too long a wait.
func TestEnqueueWaitsForAServerThatStarts(t *testing.T) {
	t.Parallel()
	refusal := func(ms int) string {
		return fmt.Sprintf(`{"code":"LEADER_UNAVAILABLE","error":"starting","details":{"retryable":true,"retry_after_ms":%d,"unchanged":true}}`, ms)
	}
	server := func(body string, times int32) *httptest.Server {
		var tries atomic.Int32
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if tries.Add(1) > times {
				_, _ = w.Write([]byte(`{"job_id":"job_1","status":"pending"}`))
				return
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(s.Close)
		return s
	}
	starting, stuck := server(refusal(1), client.DefaultRetries+1), server(refusal(60_000), math.MaxInt32)
	if a := corvo(t, []string{"CORVO_ENDPOINT=" + starting.URL}, "enqueue", "q"); a.code != 0 || a.stdout != "job_1\n" {
		t.Errorf("%d %s%s", a.code, a.stdout, a.stderr)
	}
	if a := corvo(t, []string{"CORVO_ENDPOINT=" + stuck.URL}, "enqueue", "q"); a.code != 1 || !strings.Contains(a.stderr, "read /readyz") {
		t.Errorf("%d %s%s", a.code, a.stdout, a.stderr)
	}
}

// TestHealthSendsNoCredential checks that a probe needs none and sends none, whatever the environment has.
func TestHealthSendsNoCredential(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" || r.Header.Get("Authorization") != "" {
			t.Errorf("%s with %q", r.URL, r.Header)
		}
		_, _ = w.Write([]byte(`{"status":"ok"}`))
	}))
	t.Cleanup(server.Close)
	for _, secret := range []string{"CORVO_CLOUD_TOKEN=t", "CORVO_API_KEY=k"} {
		if a := corvo(t, []string{"CORVO_ENDPOINT=" + server.URL, secret}, "health", "--ready"); a.code != 0 || a.stdout != "ok\n" {
			t.Errorf("with %s: %d %s%s", secret, a.code, a.stdout, a.stderr)
		}
	}
}
