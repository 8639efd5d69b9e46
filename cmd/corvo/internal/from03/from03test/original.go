// Package from03test answers like a running Corvo 0.3, for tests of the import. It imports only the standard
// library.
package from03test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Key is the only key that an Original accepts.
const Key = "sk_admin"

// Original is a server that answers like Corvo 0.3, as far as an import asks: it has the paths, fields,
// offsets as cursors and statuses of that HTTP API. Tests cannot build the real one, because no module proxy
// has it.
type Original struct {
	URL string

	mu    sync.Mutex
	jobs  []map[string]any // in the order of their creation
	lists map[string][]any // by path
}

// Start starts an Original and stops it when the test ends.
func Start(t *testing.T) *Original {
	t.Helper()
	o := &Original{lists: map[string][]any{}}
	server := httptest.NewServer(o.routes())
	t.Cleanup(server.Close)
	o.URL = server.URL
	return o
}

// SetList sets the response to GET /api/v1/<path>. A list that was never set answers 404.
func (o *Original) SetList(path string, list ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lists[path] = list
}

// Add adds a job with 0.3's defaults and returns its id.
func (o *Original) Add(state, queue string, more map[string]any) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	j := map[string]any{
		"id": fmt.Sprintf("job_01HX%022d", len(o.jobs)), "queue": queue, "state": state, "payload": json.RawMessage(`{}`),
		"priority": 2, "attempt": 0, "max_retries": 3, "retry_backoff": "exponential", "retry_base_delay_ms": 5000,
		"retry_max_delay_ms": 600000, "created_at": fmt.Sprintf("2026-02-01T00:00:%06.3fZ", float64(len(o.jobs))/1000),
	}
	for name, value := range more {
		j[name] = value
	}
	o.jobs = append(o.jobs, j)
	return j["id"].(string)
}

func (o *Original) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/jobs/search", o.search)
	mux.HandleFunc("GET /api/v1/jobs/{id}", o.job)
	mux.HandleFunc("GET /api/v1/queues", o.queues)
	for _, path := range []string{"providers", "budgets", "schedules", "webhooks", "auth/keys"} {
		mux.HandleFunc("GET /api/v1/"+path, func(w http.ResponseWriter, _ *http.Request) {
			o.mu.Lock()
			defer o.mu.Unlock()
			list, ok := o.lists[path]
			if !ok {
				http.Error(w, "404 page not found", http.StatusNotFound)
				return
			}
			answer(w, list)
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+Key {
			w.WriteHeader(http.StatusUnauthorized)
			answer(w, map[string]string{"error": "invalid API key", "code": "UNAUTHORIZED"})
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func (o *Original) search(w http.ResponseWriter, r *http.Request) {
	var f struct {
		Queue  string   `json:"queue"`
		State  []string `json:"state"`
		Limit  int      `json:"limit"`
		Cursor string   `json:"cursor"`
	}
	if err := json.NewDecoder(r.Body).Decode(&f); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	found := []any{}
	for _, j := range o.jobs {
		if slices.Contains(f.State, j["state"].(string)) && (f.Queue == "" || f.Queue == j["queue"]) {
			found = append(found, map[string]any{"id": j["id"], "queue": j["queue"], "state": j["state"]})
		}
	}
	offset, _ := strconv.Atoi(f.Cursor)
	total, end := len(found), min(offset+f.Limit, len(found))
	page := map[string]any{"jobs": found[min(offset, end):end], "total": total, "has_more": end < total, "duration_ms": 1}
	if end < total {
		page["cursor"] = strconv.Itoa(end)
	}
	answer(w, page)
}

func (o *Original) job(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, j := range o.jobs {
		if j["id"] == r.PathValue("id") {
			answer(w, j)
			return
		}
	}
	w.WriteHeader(http.StatusNotFound)
	answer(w, map[string]string{"error": "job not found", "code": "NOT_FOUND"})
}

// queues lists the queues with settings and the queues of jobs.
func (o *Original) queues(w http.ResponseWriter, _ *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := slices.Clone(o.lists["queues"])
	named := map[string]bool{}
	for _, q := range list {
		named[q.(map[string]any)["name"].(string)] = true
	}
	for _, j := range o.jobs {
		if name := j["queue"].(string); !named[name] {
			named[name] = true
			list = append(list, map[string]any{"name": name, "paused": false})
		}
	}
	if list == nil {
		list = []any{}
	}
	answer(w, list)
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil && !strings.Contains(err.Error(), "broken pipe") {
		panic(err)
	}
}
