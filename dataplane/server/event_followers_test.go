package server_test

import (
	"bufio"
	"flag"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/server"
)

var followRounds = flag.Int("follow.rounds", 0, "rounds of TestMeasureFollowers; 0 = it is skipped")

// TestMeasureFollowers measures the time of an enqueue, a fetch and an ack in a row: while nobody follows the
// events, while many clients follow and read nothing, and while as many read everything. Clients and node
// share a process.
//
//	go test ./dataplane/server -run TestMeasureFollowers -v -follow.rounds=3
func TestMeasureFollowers(t *testing.T) {
	if *followRounds == 0 {
		t.Skip("-follow.rounds is 0")
	}
	for round := range *followRounds {
		var none time.Duration
		for _, c := range []struct {
			name      string
			followers int
			reads     bool
		}{{"nobody follows", 0, false}, {"1,000 that read nothing", 1000, false}, {"1,000 that read", 1000, true}} {
			p50, p99, jobs := measureFollowed(t, c.followers, c.reads)
			if none == 0 {
				none = p50
			}
			t.Logf("round %d: %-24s p50 %8v  p99 %8v  %5.0f jobs/s  p50 ratio %.2f", round+1, c.name,
				p50.Round(10*time.Microsecond), p99.Round(10*time.Microsecond), jobs, float64(p50)/float64(none))
		}
	}
}

func measureFollowed(t *testing.T, followers int, reads bool) (p50, p99 time.Duration, perSecond float64) {
	n := startNode(t, func(c *server.Config) { c.EventHeartbeat = server.DefaultEventHeartbeat })
	for range followers {
		conn := n.followRaw(t)
		if reads {
			go func() { _, _ = io.Copy(io.Discard, conn) }()
		}
	}
	c := n.client(n.admin)
	// Fill the system's buffers first: after that, a client that reads nothing costs nothing more.
	var took []time.Duration
	began := time.Now()
	for time.Since(began) < 10*time.Second {
		start := time.Now()
		if _, err := c.Enqueue(t.Context(), api.EnqueueRequest{Queue: "q"}); err != nil {
			t.Fatal(err)
		}
		f, err := c.Fetch(t.Context(), api.FetchRequest{Queues: []string{"q"}})
		if err != nil || f == nil {
			t.Fatal(f, err)
		}
		if err := c.Ack(t.Context(), f.JobID, api.AckRequest{LeaseToken: f.LeaseToken}); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	perSecond = float64(len(took)) / time.Since(began).Seconds()
	slices.Sort(took)
	return took[len(took)/2], took[len(took)*99/100], perSecond
}

// followRaw opens an event stream and reads only its headers.
func (n *node) followRaw(t *testing.T) net.Conn {
	t.Helper()
	u, err := url.Parse(n.url)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	req, err := http.NewRequest("GET", n.url+"/api/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+n.admin)
	if err := req.Write(conn); err != nil {
		t.Fatal(err)
	}
	if resp, err := http.ReadResponse(bufio.NewReader(conn), req); err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	return conn
}
