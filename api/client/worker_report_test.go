package client

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/api"
)

// usageServer counts usage as a server does: it does not count the usage of a heartbeat if the job's last
// report had the heartbeat's report id.
type usageServer struct {
	mu     sync.Mutex
	last   map[string]string // report id by job
	tokens map[string]int64  // by job
}

// hear counts the usage of a request. An ack and a fail have no report id.
func (u *usageServer) hear(t *testing.T, s said) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch s.route {
	case "heartbeat":
		var req api.HeartbeatRequest
		if err := json.Unmarshal([]byte(s.body), &req); err != nil {
			t.Error(err)
		}
		for id, j := range req.Jobs {
			if j.Usage != nil && u.last[id] != req.ReportID {
				u.tokens[id] += int64(j.Usage.InputTokens)
				u.last[id] = req.ReportID
			}
		}
	case "ack", "fail":
		var req struct {
			LeaseToken string             `json:"lease_token"`
			Usage      *api.ReportedUsage `json:"usage"`
		}
		if err := json.Unmarshal([]byte(s.body), &req); err != nil {
			t.Error(err)
		}
		if req.Usage != nil {
			u.tokens[req.LeaseToken[len("token of "):]] += int64(req.Usage.InputTokens)
		}
	case "ack/batch":
		t.Error("acks of several jobs")
	}
}

// Usage counts once if the server stores a heartbeat and every response is lost until Save gives up.
func TestUsageCountsOnceAfterAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]func(ctx context.Context, j *Job) error{
		"another Save": func(ctx context.Context, j *Job) error { time.Sleep(10 * time.Second); return j.Save(ctx) },
		"an ack":       func(context.Context, *Job) error { time.Sleep(10 * time.Second); return nil },
		"a fail":       func(context.Context, *Job) error { time.Sleep(10 * time.Second); return fmt.Errorf("failed") },
		"heartbeats":   func(context.Context, *Job) error { time.Sleep(40 * time.Second); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newClockwork("job_1", "job_2")
				u := &usageServer{last: map[string]string{}, tokens: map[string]int64{}}
				c.answer = func(s said) (int, string) {
					u.hear(t, s)
					if s.route == "heartbeat" && s.at < 5*time.Second {
						return -1, ""
					}
					return 0, ""
				}
				stop := c.runs(t, &Worker{DrainTimeout: -1}, func(ctx context.Context, j *Job) error {
					if j.JobID == "job_2" {
						time.Sleep(90 * time.Second)
						j.AddUsage(api.ReportedUsage{InputTokens: 1})
						return nil
					}
					j.AddUsage(api.ReportedUsage{InputTokens: 5})
					short, cancel := context.WithTimeout(ctx, 4*time.Second)
					defer cancel()
					if err := j.Save(short); err == nil {
						t.Error("Save returned no error")
					}
					j.AddUsage(api.ReportedUsage{InputTokens: 7}) // must not be merged into the report that may be stored
					return after(ctx, j)
				})
				time.Sleep(2 * time.Minute)
				stop()
				if u.tokens["job_1"] != 12 || u.tokens["job_2"] != 1 {
					t.Errorf("the server counts %v, want 12 and 1", u.tokens)
				}
			})
		})
	}
}
