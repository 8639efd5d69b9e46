package dataplane_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/fleettest"
	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/tenancy/keyring"
)

// why returns the first reason why a job does not run.
func (c *cloud) why(key, id string) (w api.WhyReason) {
	c.t.Helper()
	var all api.Why
	if err := json.Unmarshal([]byte(c.want(200, "GET", "/api/v1/jobs/"+id+"/why", key, "")), &all); err != nil {
		c.t.Fatal(err)
	}
	return all.Reasons[0]
}

// A document with a hold keeps jobs from starting, and nothing else: acks, heartbeats, enqueues and the repeat of an earlier
// fetch work. The hold lasts over a restart of the host while the control plane is away. The polls that wait get the jobs
// when a document ends it. Another namespace of the host is not affected.
func TestHoldOfADocument(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.open()
	text, key := c.key(keyring.Namespace)
	other, otherKey := c.key(keyring.Namespace)
	d := c.placed("ns_a", 1, key)
	c.plane.Put(d)
	c.plane.Put(c.placed("ns_b", 1, otherKey))
	c.reported("ns_a", fleet.Opened, 1)
	c.reported("ns_b", fleet.Opened, 1)
	const fetch, repeated = `{"queues":["q"],"timeout":0}`, "Idempotency-Key: first"
	c.enqueue(text)
	var active api.FetchedJob
	if err := json.Unmarshal([]byte(c.want(200, "POST", "/api/v1/fetch", text, fetch, repeated)), &active); err != nil {
		t.Fatal(err)
	}

	d.Hold = fleet.HoldSpendLimit
	c.plane.Put(d)
	waits := c.enqueue(text)
	fleettest.Eventually(t, "the host hears of the hold", func() bool { return c.why(text, waits).Reason == "spend_limit" })
	if w := c.why(text, waits); !strings.Contains(w.Message, "raise the limit") {
		t.Errorf("the reason is %+v", w)
	}
	c.want(204, "POST", "/api/v1/fetch", text, fetch)
	if body := c.want(200, "POST", "/api/v1/fetch/batch", text, `{"queues":["q"],"count":5,"timeout":0}`); !strings.Contains(body, `"jobs":[]`) {
		t.Errorf("a batch during the hold: %s", body)
	}
	if body := c.want(200, "POST", "/api/v1/fetch", text, fetch, repeated); !strings.Contains(body, active.LeaseToken) {
		t.Errorf("the repeat of the first fetch: %s", body)
	}
	c.enqueue(other)
	c.want(200, "POST", "/api/v1/fetch", other, fetch)

	// The host starts anew without the control plane.
	c.plane.SetDown(true)
	c.close()
	c.open()
	if body := c.want(200, "POST", "/api/v1/heartbeat", text, fmt.Sprintf(`{"jobs":{%q:{"lease_token":%q}}}`, active.JobID, active.LeaseToken)); !strings.Contains(body, active.JobID) {
		t.Errorf("a heartbeat during the hold: %s", body)
	}
	c.want(200, "POST", "/api/v1/ack/"+active.JobID, text, fmt.Sprintf(`{"lease_token":%q}`, active.LeaseToken))
	if w := c.why(text, waits); w.Reason != "spend_limit" {
		t.Errorf("after a restart the reason is %+v", w)
	}
	c.want(204, "POST", "/api/v1/fetch", text, fetch)

	polls := make(chan said, 2)
	for range cap(polls) {
		go func() { polls <- c.send("POST", "/api/v1/fetch", text, `{"queues":["other","q"],"timeout":60}`) }()
	}
	fleettest.Eventually(t, "both polls wait", func() bool {
		return strings.Contains(c.send("GET", "/api/v1/metrics", text, "").body, telemetry.PollsParked.Name+" 2")
	})
	c.plane.SetDown(false)
	d.Hold = ""
	c.plane.Put(d)
	if a := <-polls; a.status != 200 || !strings.Contains(a.body, waits) {
		t.Errorf("after the hold a poll gets %d %s", a.status, a.body)
	}
	last := c.enqueue(text)
	if a := <-polls; a.status != 200 || !strings.Contains(a.body, last) {
		t.Errorf("the other poll gets %d %s", a.status, a.body)
	}
}
