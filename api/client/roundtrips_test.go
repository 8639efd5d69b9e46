package client_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// counted counts the fetches, acks and fails that are separate requests.
type counted struct {
	http.RoundTripper
	n atomic.Int64
}

func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	for _, route := range []string{"/fetch", "/ack", "/fail"} {
		if strings.HasPrefix(r.URL.Path, "/api/v1"+route) {
			c.n.Add(1)
		}
	}
	return c.RoundTripper.RoundTrip(r)
}

// A worker sends two requests for each short job: a fetch and an ack. Over a stream it sends one message
// for both.
func TestRoundTripsOfAWorker(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{1, 10} {
		polls, stream := roundTrips(t, slots, false), roundTrips(t, slots, true)
		t.Logf("%d slots: %.2f round trips for each job, %.2f over a stream", slots, polls, stream)
		if slots == 1 && (polls < 1.9 || stream > 1.1) {
			t.Errorf("with one slot: %v for each job, %v over a stream", polls, stream)
		}
	}
}

// roundTrips returns the number of requests that a worker sends for each job.
func roundTrips(t *testing.T, slots int, stream bool) float64 {
	t.Helper()
	_, url, stop := openNode()
	defer stop()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true) // which a stream needs
	counts := &counted{RoundTripper: transport}
	c, err := client.New(url, "", client.WithHTTPClient(&http.Client{Transport: counts}))
	if err != nil {
		t.Fatal(err)
	}
	defer transport.CloseIdleConnections()
	batch := make([]api.EnqueueRequest, 200)
	for i := range batch {
		batch[i].Queue = "q"
	}
	if _, err := c.EnqueueBatch(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := &client.Worker{Client: c, Concurrency: slots, Stream: stream}
	var done, asked atomic.Int64
	w.Handle("q", func(context.Context, *client.Job) error {
		if done.Add(1) == int64(len(batch)) {
			asked.Store(counts.n.Load() + int64(w.Frames()))
			cancel()
		}
		return nil
	})
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	return float64(asked.Load()) / float64(len(batch))
}
