package serve

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/corvo/corvo/tenancy"
)

// A small authenticated POST, in process, and the same work by a bare net/http handler. Neither includes
// the cost of net/http on a connection.

type enqueue struct {
	Queue    string          `json:"queue"`
	Payload  json.RawMessage `json:"payload"`
	Priority string          `json:"priority"`
}

type enqueued struct {
	JobID  string `json:"job_id"`
	Status string `json:"status"`
	Unique bool   `json:"unique_existing"`
}

const enqueueBody = `{"queue":"mail","payload":{"to":"someone@example.com","text":"hello, this is about 200 bytes of a job, as small jobs are: an address, a template, some values"},"priority":"high"}`

// sink is a ResponseWriter that keeps its header for the next request.
type sink struct {
	header http.Header
	status int
	bytes  int
}

func (s *sink) Header() http.Header    { return s.header }
func (s *sink) WriteHeader(status int) { s.status = status }

// SetReadDeadline exists because the writer of net/http has it. Without it the benchmark would measure
// the failed lookup.
func (s *sink) SetReadDeadline(time.Time) error { return nil }

func (s *sink) Write(b []byte) (int, error) { s.bytes += len(b); return len(b), nil }

// reader is a request body that can be read again.
type reader struct{ bytes.Reader }

func (*reader) Close() error { return nil }

// drive sends one request repeatedly.
func drive(h http.Handler) func() int {
	u, _ := url.Parse("/api/v1/enqueue")
	body := &reader{}
	w := &sink{header: http.Header{}}
	return func() int {
		body.Reset([]byte(enqueueBody))
		clear(w.header)
		h.ServeHTTP(w, &http.Request{
			Method: "POST", URL: u, Host: "x", Body: body, ContentLength: int64(len(enqueueBody)),
			Header: http.Header{"Authorization": {"Bearer worker"}},
		})
		return w.status
	}
}

func tableHandler(tb testing.TB) http.Handler {
	return newNode(tb, Route{
		Method: "POST", Path: "/api/v1/enqueue", Permission: tenancy.JobEnqueue,
		Handler: func(w http.ResponseWriter, r *http.Request) error {
			var e enqueue
			if err := DecodeJSON(r, &e); err != nil {
				return err
			}
			return WriteJSON(w, http.StatusCreated, enqueued{JobID: "job_1", Status: "pending"})
		},
	})
}

func bareHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/enqueue", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var e enqueue
		if err := json.Unmarshal(body, &e); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer, err := json.Marshal(enqueued{JobID: "job_1", Status: "pending"})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(answer)
	})
	return mux
}

func benchmark(b *testing.B, h http.Handler) {
	request := drive(h)
	b.ReportAllocs()
	for b.Loop() {
		if status := request(); status != http.StatusCreated {
			b.Fatalf("status %d", status)
		}
	}
}

func BenchmarkTable(b *testing.B) { benchmark(b, tableHandler(b)) }
func BenchmarkBare(b *testing.B)  { benchmark(b, bareHandler()) }

// TestAllocations limits the allocations of a request: those of a bare handler for the same work, and at
// most three more for request id, timing, context and deadline.
func TestAllocations(t *testing.T) {
	tableRequest, bareRequest := drive(tableHandler(t)), drive(bareHandler())
	table := testing.AllocsPerRun(500, func() { tableRequest() })
	bare := testing.AllocsPerRun(500, func() { bareRequest() })
	if table > bare+3 {
		t.Errorf("a request allocates %v times, that of a bare handler %v", table, bare)
	}
}
