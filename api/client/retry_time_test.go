package client

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/api"
)

// refusing refuses the first requests with a body, without a network.
type refusing struct {
	body  string
	times int
	tries int
}

func (r *refusing) RoundTrip(*http.Request) (*http.Response, error) {
	status, text := http.StatusCreated, enqueued
	if r.tries++; r.tries <= r.times {
		status, text = http.StatusServiceUnavailable, r.body
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text))}, nil
}

// TestRetryTime checks that a retry time replaces the number of retries while the server asks for a wait, and bounds the call.
func TestRetryTime(t *testing.T) {
	t.Parallel()
	const limit, always = 15 * time.Second, 1000
	minute := strings.Replace(changeless, "1000", "60000", 1)
	for _, c := range []struct {
		name          string
		server        refusing
		opts          []Option
		done          bool
		tries         int // 0 = more than without a retry time
		atLeast, most time.Duration
	}{
		{"a server that starts", refusing{body: changeless, times: 6}, nil, true, 7, 6 * time.Second, limit},
		{"a server that never starts", refusing{body: changeless, times: always}, nil, false, 0, limit - mostWait, limit},
		{"a server that asks for a longer time", refusing{body: minute, times: always}, nil, false, 1, 0, 0},
		{"a server that asks for no time", refusing{body: noLeader, times: always}, []Option{WithKeyedWrites()}, false, 1 + DefaultRetries, 0, time.Second},
		{"no retries", refusing{body: changeless, times: always}, []Option{WithRetries(0)}, false, 1, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, err := New("http://corvo", "", append(c.opts, WithRetryTime(limit), WithHTTPClient(&http.Client{Transport: &c.server}))...)
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				_, err = client.Enqueue(t.Context(), api.EnqueueRequest{Queue: "q"})
				took := time.Since(began)
				if (err == nil) != c.done || took < c.atLeast || took > c.most {
					t.Errorf("%v after %v, want one of %v to %v", err, took, c.atLeast, c.most)
				}
				if n := c.server.tries; c.tries == 0 && n <= 1+DefaultRetries || c.tries > 0 && n != c.tries {
					t.Errorf("%d tries", n)
				}
			})
		})
	}
}
