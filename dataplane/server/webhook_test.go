package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/dataplane/sinks"
	"github.com/corvo/corvo/tenancy"
)

// A webhook receives the events of jobs that it subscribes to, of the queues that it names, in order.
func TestJobEventsAreDelivered(t *testing.T) {
	t.Parallel()
	got := make(chan api.Event, 100)
	to := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e api.Event
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &e)
		}
		if err != nil || e.Type != r.Header.Get(sinks.HeaderWebhookEvent) {
			t.Errorf("sent %s as %s: %v", body, r.Header.Get(sinks.HeaderWebhookEvent), err)
		}
		got <- e
	}))
	t.Cleanup(to.Close)
	n := startNodeOn(t, host.Config{Webhooks: cell.Webhooks{Private: true}}, nil)
	hook := n.hook(`{"url":"` + to.URL + `","secret":"` + hookSecret + `","events":["enqueued","started","completed"],"queues":["mail-*"],"secret_overlap":"1h"}`)
	wantFields(t, "the created webhook", hook, func(want *api.Webhook) {
		want.Events, want.Queues = []string{"enqueued", "started", "completed"}, []string{"mail-*"}
		want.SecretOverlap, want.OldSecretUntil = "1h0m0s", nil
	})
	for _, queue := range []string{"other", "mail-a"} {
		var made api.EnqueueResponse
		var job api.FetchedJob
		n.ok(&made, "POST", "/enqueue", `{"queue":"`+queue+`"}`)
		n.ok(&job, "POST", "/fetch", `{"queues":["`+queue+`"],"worker_id":"w"}`)
		n.ok(nil, "POST", "/ack/"+job.JobID, `{"lease_token":"`+job.LeaseToken+`"}`)
		if queue == "other" {
			continue
		}
		for i, want := range []string{"enqueued", "started", "completed"} {
			e := <-got
			wantFields(t, fmt.Sprintf("event %d", i), e, func(event *api.Event) {
				event.Type, event.JobID, event.Queue = want, made.JobID, queue
			})
			present(t, "seq", e.Seq)
			present(t, "at_ns", e.AtNs)
		}
	}
	eventually(t, "all deliveries are over", func() bool {
		var now api.Webhook
		n.ok(&now, "GET", "/webhooks/"+hook.ID, "")
		return now.Waiting == 0 && now.Dropped == 0 && now.FailingSince == nil && now.LastStatusCode != nil
	})
	if len(got) != 0 {
		t.Errorf("and sent %+v", <-got)
	}
	var now api.Webhook
	n.ok(&now, "PUT", "/webhooks/"+hook.ID, `{"url":"`+to.URL+`","secret":"another secret, which is new"}`)
	if now.OldSecretUntil == nil || now.SecretOverlap != "24h0m0s" || len(now.Queues) != 0 {
		t.Errorf("with another secret: %+v", now)
	}
}

// The number and times of a webhook's deliveries show the activity of all queues, so a key with a scope does
// not see them.
func TestDeliveriesDoNotShowThroughAWebhook(t *testing.T) {
	t.Parallel()
	to := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	t.Cleanup(to.Close)
	n := startNodeOn(t, host.Config{Webhooks: cell.Webhooks{Private: true}}, nil)
	hook := n.hook(`{"url":"` + to.URL + `","secret":"` + hookSecret + `","events":["enqueued"]}`)
	n.ok(nil, "POST", "/enqueue", `{"queue":"theirs"}`)
	n.ok(nil, "POST", "/enqueue", `{"queue":"theirs"}`)
	see := func(scope ...tenancy.Glob) (seen api.Webhook) {
		t.Helper()
		key := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.ReadOnly}, QueueScope: scope})
		a := n.send("GET", "/api/v1/webhooks/"+hook.ID, key, "")
		if err := json.Unmarshal(a.body, &seen); err != nil || a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		return seen
	}
	eventually(t, "a delivery has failed", func() bool { return see().LastStatusCode != nil })
	if all := see(); all.Waiting == 0 || all.LastDeliveryAt == nil {
		t.Errorf("who may see every queue sees %+v", all)
	}
	wantFields(t, "the webhook as a key for a queue of its own sees it", see("mine"), func(want *api.Webhook) {
		want.Waiting, want.LastStatusCode, want.LastError, want.LastDeliveryAt = 0, nil, nil, nil
	})
}
