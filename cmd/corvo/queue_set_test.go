package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
)

// settled serves one queue. On each of the next others writes, another client pauses the queue just before,
// so that the write meets a newer version.
type settled struct {
	t       *testing.T
	queue   *api.Queue
	version int
	others  int
}

func (s *settled) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPut {
		if s.others > 0 {
			s.others, s.version = s.others-1, s.version+1
			s.queue = &api.Queue{Name: "q", Paused: true}
		}
		match, none := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
		if s.queue == nil && none != "*" || s.queue != nil && match != fmt.Sprintf(`"%d"`, s.version) {
			w.WriteHeader(http.StatusPreconditionFailed)
			fmt.Fprint(w, `{"error":"somebody else was faster","code":"PRECONDITION_FAILED"}`)
			return
		}
		var req api.PutQueueRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			s.t.Error(err)
		}
		s.version++
		s.queue = &api.Queue{Name: "q", Paused: req.Paused != nil && *req.Paused, MaxConcurrency: req.MaxConcurrency}
	} else if s.queue == nil {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"error":"there is no queue q","code":"NOT_FOUND"}`)
		return
	}
	w.Header().Set("ETag", fmt.Sprintf(`"%d"`, s.version))
	if err := json.NewEncoder(w).Encode(s.queue); err != nil {
		s.t.Error(err)
	}
}

// TestQueuesSetKeepsWhatOthersDo checks that setting a queue keeps concurrent changes by others, above all a
// pause that the server has confirmed to them.
func TestQueuesSetKeepsWhatOthersDo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		queue   *api.Queue
		others  int
		refused bool
	}{
		"nobody else":        {queue: &api.Queue{Name: "q"}},
		"a new queue":        {},
		"paused meanwhile":   {queue: &api.Queue{Name: "q"}, others: 1},
		"made meanwhile":     {others: 1},
		"others never pause": {queue: &api.Queue{Name: "q"}, others: 1000, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &settled{t: t, queue: c.queue, version: 1, others: c.others}
			server := httptest.NewServer(s)
			defer server.Close()
			a := corvo(t, []string{"CORVO_ENDPOINT=" + server.URL}, "queues", "set", "q", "--max-concurrency", "5")
			if c.refused {
				if a.code == 0 || !strings.Contains(a.stderr, "somebody else was faster") {
					t.Errorf("ended with %d: %s", a.code, a.stderr)
				}
				return
			}
			if a.code != 0 {
				t.Fatal(a.stderr)
			}
			if q := s.queue; q.Paused != (c.others > 0) || q.MaxConcurrency == nil || *q.MaxConcurrency != 5 {
				t.Errorf("the queue is %+v", q)
			}
		})
	}
}
