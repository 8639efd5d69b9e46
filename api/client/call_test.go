package client

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
)

// echo answers each request with the same text, without a network.
type echo string

func (e echo) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		io.Copy(io.Discard, r.Body)
		r.Body.Close()
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, ContentLength: int64(len(e)), Body: io.NopCloser(strings.NewReader(string(e)))}, nil
}

// BenchmarkCall measures the cost of a call in addition to that of net/http.
func BenchmarkCall(b *testing.B) {
	payload := json.RawMessage(`{"to":"` + strings.Repeat("x", 190) + `"}`)
	batch := make([]api.EnqueueRequest, 64)
	for i := range batch {
		batch[i] = api.EnqueueRequest{Queue: "q", Payload: payload}
	}
	fetched := `{"job_id":"job_01ARZ3NDEKTSV4RRFFQ69G5FAV","queue":"q","payload":` + string(payload) + `,"attempt":1,"max_retries":3,"lease_duration":60,"lease_token":"AAAAAAAAAAAAAAAAAAAAAAAAAA"}`
	jobs := bytes.Repeat([]byte(fetched+","), 64)
	for _, one := range []struct {
		name, answer string
		call         func(c *Client) error
	}{
		{"Enqueue", `{"job_id":"job_01ARZ3NDEKTSV4RRFFQ69G5FAV","status":"pending"}`, func(c *Client) error {
			_, err := c.Enqueue(b.Context(), api.EnqueueRequest{Queue: "q", Payload: payload})
			return err
		}},
		{"Fetch", fetched, func(c *Client) error {
			_, err := c.Fetch(b.Context(), api.FetchRequest{Queues: []string{"q"}, WorkerID: "w"})
			return err
		}},
		{"Ack", `{"status":"ok"}`, func(c *Client) error {
			return c.Ack(b.Context(), "job_01ARZ3NDEKTSV4RRFFQ69G5FAV", api.AckRequest{LeaseToken: "AAAAAAAAAAAAAAAAAAAAAAAAAA", Result: json.RawMessage(`{"ok":true}`)})
		}},
		{"EnqueueBatch", `{"job_ids":["job_01ARZ3NDEKTSV4RRFFQ69G5FAV"]}`, func(c *Client) error {
			_, err := c.EnqueueBatch(b.Context(), batch)
			return err
		}},
		{"FetchBatch", `{"jobs":[` + string(jobs[:len(jobs)-1]) + `]}`, func(c *Client) error {
			_, err := c.FetchBatch(b.Context(), api.FetchBatchRequest{FetchRequest: api.FetchRequest{Queues: []string{"q"}}})
			return err
		}},
	} {
		b.Run(one.name, func(b *testing.B) {
			c, err := New("http://corvo", "key", WithHTTPClient(&http.Client{Transport: echo(one.answer)}))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := one.call(c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A name that no path can contain is refused without a request.
func TestNamesThatPathsCannotHold(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("asked for %s", r.URL)
	}))
	defer server.Close()
	c, err := New(server.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for _, name := range []string{".", ".."} {
		_, ofQueue := c.Queue(ctx, name, Read{})
		_, ofJob := c.Job(ctx, name, Read{Strong: true})
		_, ofBudget := c.Budget(ctx, "queue", name, Read{})
		for _, err := range []error{ofQueue, c.PauseQueue(ctx, name), c.DeleteQueue(ctx, name, true), ofJob, ofBudget} {
			if api.CodeOf(err) != api.ValidationError || !strings.Contains(err.Error(), strconv.Quote(name)) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
