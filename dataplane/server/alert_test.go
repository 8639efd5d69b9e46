package server_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/dataplane/sinks"
	"github.com/corvo/corvo/tenancy"
)

const hookSecret = "0123456789abcdef"

// hook creates a webhook.
func (n *node) hook(body string) (out api.Webhook) {
	n.t.Helper()
	a := n.send("POST", "/api/v1/webhooks", n.admin, body)
	if err := json.Unmarshal(a.body, &out); err != nil || a.status != http.StatusCreated {
		n.t.Fatalf("%d %s", a.status, a.body)
	}
	return out
}

func TestAWebhooksLife(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	made := n.hook(`{"url":"https://example.com/hook","secret":"` + hookSecret + `"}`)
	if !strings.HasPrefix(made.ID, "hook_") {
		t.Errorf("its id is %s", made.ID)
	}
	equal(t, "enabled", made.Enabled, true)
	equal(t, "retry_limit", made.RetryLimit, 3)
	equal(t, "last_delivery_at", made.LastDeliveryAt, nil)
	present(t, "created_at", made.CreatedAt)
	if made.Events == nil {
		t.Error("events is null, want a list")
	}
	path := "/webhooks/" + made.ID
	a := n.ok(nil, "GET", path, "")
	if strings.Contains(string(a.body), `"secret"`) || strings.Contains(string(a.body), hookSecret) || a.header.Get("ETag") != `"1"` {
		t.Errorf("read %s", a.body)
	}
	var now api.Webhook
	n.ok(&now, "PUT", path, `{"url":"https://example.com/other","enabled":false,"retry_limit":0,"events":["alert_fired"]}`, `If-Match: "1"`)
	wantFields(t, "the replaced webhook", now, func(want *api.Webhook) {
		want.ID, want.URL, want.Enabled, want.RetryLimit, want.Events = made.ID, "https://example.com/other", false, 0, []string{"alert_fired"}
	})
	var all []api.Webhook
	if n.ok(&all, "GET", "/webhooks", ""); len(all) != 1 || all[0].ID != made.ID {
		t.Errorf("listed %+v", all)
	}
	if a := n.send("POST", "/api/v1"+path+"/test", n.admin, ""); a.status != 409 {
		t.Errorf("a test of one that is not enabled: %d %s", a.status, a.body)
	}
	n.ok(nil, "DELETE", path, "")
	if a := n.send("GET", "/api/v1"+path, n.admin, ""); a.status != 404 {
		t.Errorf("deleted: %d", a.status)
	}
}

// The address of a webhook may be a secret. A caller who may not declare webhooks sees only its host. A key
// with a scope learns nothing of a budget of another queue.
func TestWebhookAddressesAreSecret(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	made := n.hook(`{"url":"https://hooks.example.com:8443/T0/B1/token?key=k","secret":"` + hookSecret + `"}`)
	for who, c := range map[string]struct {
		key  tenancy.Key
		want string
	}{
		"who declares webhooks":      {tenancy.Key{Roles: []tenancy.Role{tenancy.Admin}}, made.URL},
		"who looks":                  {tenancy.Key{Roles: []tenancy.Role{tenancy.ReadOnly}}, "https://hooks.example.com:8443"},
		"who manages queues":         {tenancy.Key{Roles: []tenancy.Role{tenancy.Operator}}, "https://hooks.example.com:8443"},
		"an admin of a single queue": {tenancy.Key{Roles: []tenancy.Role{tenancy.Admin}, QueueScope: []tenancy.Glob{"q"}}, "https://hooks.example.com:8443"},
	} {
		key := n.key(c.key)
		var one api.Webhook
		var all []api.Webhook
		for path, into := range map[string]any{"/webhooks": &all, "/webhooks/" + made.ID: &one} {
			if a := n.send("GET", "/api/v1"+path, key, ""); json.Unmarshal(a.body, into) != nil || a.status != 200 {
				t.Fatalf("%s: %d %s", who, a.status, a.body)
			}
		}
		if one.URL != c.want || len(all) != 1 || all[0].URL != c.want {
			t.Errorf("%s sees %q, and in the list %+v", who, one.URL, all)
		}
	}

	n.ok(nil, "POST", "/alerts", `{"name":"a","when":"budget","target":"queue/theirs","threshold":1,"notify":"`+made.ID+`"}`)
	n.ok(nil, "POST", "/alerts", `{"name":"b","when":"budget","target":"namespace/default","threshold":1,"notify":"`+made.ID+`"}`)
	var rules []api.AlertRule
	a := n.send("GET", "/api/v1/alerts", n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.ReadOnly}, QueueScope: []tenancy.Glob{"mine"}}), "")
	if err := json.Unmarshal(a.body, &rules); err != nil || len(rules) != 1 || rules[0].Name != "b" {
		t.Errorf("who has a queue of his own sees %s", a.body)
	}
}

func TestWebhookAndAlertRefusals(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	hook := n.hook(`{"url":"https://example.com/","secret":"` + hookSecret + `"}`)
	viewer := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Operator}})
	for _, c := range []struct {
		path, body string
		status     int
		says       string
	}{
		{"/webhooks", `{}`, 400, "url"},
		{"/webhooks", `{"url":"https://example.com/"}`, 400, "secret"},
		{"/webhooks", `{"url":"https://example.com/","secret":"short"}`, 400, "secret"},
		{"/webhooks", `{"url":"gopher://example.com/","secret":"` + hookSecret + `"}`, 400, "url"},
		{"/webhooks", `{"url":"http://x:99999/","secret":"` + hookSecret + `"}`, 400, "port"},
		{"/webhooks", `{"url":"http://x:0/","secret":"` + hookSecret + `"}`, 400, "port"},
		{"/webhooks", `{"url":"http://[::1]:65536/","secret":"` + hookSecret + `"}`, 400, "port"},
		{"/webhooks", `{"url":"https://example.com/","secret":"` + hookSecret + `","retry_limit":21}`, 400, "retry_limit"},
		{"/webhooks", `{"url":"https://example.com/","secret":"` + hookSecret + `","events":["nonsense"]}`, 400, "events"},
		{"/webhooks", `{"url":"https://example.com/","secret":"` + hookSecret + `","secret_overlap":"1ns"}`, 400, "secret_overlap"},
		{"/webhooks", `{"url":"https://example.com/","secret":"` + hookSecret + `","secret_overlap":"10000h"}`, 400, "secret_overlap"},
		{"/alerts", `{}`, 400, "notify"},
		{"/alerts", `{"name":"a","when":"dead","threshold":1,"notify":"hook_none"}`, 400, "notify"},
		{"/alerts", `{"name":"a","when":"load","threshold":1,"notify":"HOOK"}`, 400, "when"},
		{"/alerts", `{"name":"a","when":"dead","op":">=","threshold":1,"notify":"HOOK"}`, 400, "op"},
		{"/alerts", `{"name":"a","when":"dead","threshold":1,"for":"25h","notify":"HOOK"}`, 400, "for"},
		{"/alerts", `{"name":"a","when":"dead","target":"queue/q","threshold":1,"notify":"HOOK"}`, 400, "target"},
		{"/alerts", `{"name":"a","when":"budget","queue":"q","threshold":1,"notify":"HOOK"}`, 400, "queue"},
		{"/alerts", `{"name":"a","when":"budget","target":"q","threshold":1,"notify":"HOOK"}`, 400, "target"},
	} {
		a := n.send("POST", "/api/v1"+c.path, n.admin, strings.ReplaceAll(c.body, "HOOK", hook.ID))
		if a.status != c.status || !strings.Contains(a.problem(t).Error, c.says) {
			t.Errorf("%s %s: %d %s", c.path, c.body, a.status, a.body)
		}
	}
	n.ok(nil, "POST", "/alerts", `{"name":"a","when":"dead","threshold":1,"notify":"`+hook.ID+`"}`)
	if a := n.send("DELETE", "/api/v1/webhooks/"+hook.ID, n.admin, ""); a.status != 409 {
		t.Errorf("delete what a rule needs: %d %s", a.status, a.body)
	}
	if a := n.send("POST", "/api/v1/webhooks", viewer, `{}`); a.status != 403 {
		t.Errorf("without the right to keys: %d", a.status)
	}
}

// receiver stores the deliveries of a webhook after it has verified their sender.
type receiver struct {
	*httptest.Server
	got chan api.AlertEvent
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{got: make(chan api.AlertEvent, 100)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		stamp, sum, _ := strings.Cut(strings.TrimPrefix(req.Header.Get(sinks.HeaderSignature), "t="), ",v1=")
		mac := hmac.New(sha256.New, []byte(hookSecret))
		fmt.Fprintf(mac, "%s.%s", stamp, body)
		var e api.AlertEvent
		if err := json.Unmarshal(body, &e); err != nil || sum != hex.EncodeToString(mac.Sum(nil)) || e.Event != req.Header.Get(sinks.HeaderWebhookEvent) {
			t.Errorf("sent %s, signed %s", body, req.Header.Get(sinks.HeaderSignature))
		}
		r.got <- e
	}))
	t.Cleanup(r.Close)
	return r
}

// Every kind of rule fires and its webhook receives the alert.
func TestAlertsAreDelivered(t *testing.T) {
	t.Parallel()
	to := newReceiver(t)
	n := startNodeOn(t, host.Config{Webhooks: cell.Webhooks{Private: true}}, nil)
	hook := n.hook(`{"url":"` + to.URL + `","secret":"` + hookSecret + `"}`)
	n.ok(nil, "PUT", "/webhooks/"+hook.ID, `{"url":"`+to.URL+`"}`) // the secret stays
	var test api.WebhookTest
	n.ok(&test, "POST", "/webhooks/"+hook.ID+"/test", "")
	if e := <-to.got; e.Event != "test" || !strings.HasPrefix(test.DeliveryID, "dlv_") {
		t.Errorf("%+v, sent %+v", test, e)
	}
	n.ok(nil, "POST", "/enqueue", `{"queue":"q"}`)
	rules := map[string]string{}
	for when, more := range map[string]string{
		"queue_depth": `"queue":"q","threshold":0`, "oldest_pending": `"queue":"q","threshold":0`, "workers": `"op":"<","threshold":1`,
	} {
		var rule api.AlertRule
		n.ok(&rule, "POST", "/alerts", fmt.Sprintf(`{"name":"n","when":%q,%s,"notify":%q}`, when, more, hook.ID))
		rules[rule.ID] = when
		e := <-to.got
		wantFields(t, when, e, func(want *api.AlertEvent) {
			want.Event, want.Rule.ID, want.Rule.When, want.Firing = "alert_fired", rule.ID, when, true
		})
		if n.ok(&rule, "GET", "/alerts/"+rule.ID, ""); rule.State != api.AlertFiring || rule.Since == nil || rule.Value == nil {
			t.Errorf("%s: %+v", when, rule)
		}
	}
	// The job is fetched and dies: the fired alert resolves, and the rule about dead jobs fires.
	var job, doomed api.FetchedJob
	n.ok(&job, "POST", "/fetch", `{"queues":["q"],"worker_id":"w"}`)
	for range len(rules) {
		if e := <-to.got; e.Event != "alert_resolved" || e.Firing || rules[e.Rule.ID] == "" {
			t.Errorf("sent %+v", e)
		} else {
			delete(rules, e.Rule.ID)
		}
	}
	n.ok(nil, "POST", "/enqueue", `{"queue":"dead","max_retries":1}`)
	n.ok(&doomed, "POST", "/fetch", `{"queues":["dead"],"worker_id":"w"}`)
	n.ok(nil, "POST", "/fail/"+doomed.JobID, `{"lease_token":"`+doomed.LeaseToken+`","error":"e"}`)
	n.ok(nil, "POST", "/alerts", `{"name":"n","when":"dead","queue":"dead","threshold":0,"notify":"`+hook.ID+`"}`)
	if e := <-to.got; e.Event != "alert_fired" || e.Rule.When != "dead" || e.Value != 1 {
		t.Errorf("sent %+v", e)
	}
	if len(to.got) != 0 {
		t.Errorf("and sent %+v", <-to.got)
	}
	var all []api.Delivery
	eventually(t, "all deliveries are over", func() bool {
		all = nil
		n.ok(&all, "GET", "/webhooks/"+hook.ID+"/deliveries", "")
		waits := func(d api.Delivery) bool { return d.State == api.DeliveryPending }
		return len(all) == 8 && !slices.ContainsFunc(all, waits)
	})
	for _, d := range all {
		wantFields(t, d.Event, d, func(want *api.Delivery) {
			want.State, want.Attempts, want.LastStatusCode, want.LastError = api.DeliveryDelivered, 1, ptr(200), nil
		})
	}
	var seen api.Webhook
	n.ok(&seen, "GET", "/webhooks/"+hook.ID, "")
	equal(t, "last_status_code", seen.LastStatusCode, ptr(200))
	equal(t, "last_error", seen.LastError, nil)
	present(t, "last_delivery_at", seen.LastDeliveryAt)
}

// A rule notifies the webhook that it names, although the webhook subscribes only to other events.
func TestAlertsGoToTheWebhookOfTheirRule(t *testing.T) {
	t.Parallel()
	to, other := newReceiver(t), newReceiver(t)
	n := startNodeOn(t, host.Config{Webhooks: cell.Webhooks{Private: true}}, nil)
	hook := n.hook(`{"url":"` + to.URL + `","secret":"` + hookSecret + `","events":["completed"],"queues":["elsewhere"]}`)
	n.hook(`{"url":"` + other.URL + `","secret":"` + hookSecret + `","events":["*"],"queues":["elsewhere"]}`) // no rule names it
	n.ok(nil, "POST", "/enqueue", `{"queue":"q"}`)
	var rule api.AlertRule
	n.ok(&rule, "POST", "/alerts", `{"name":"n","when":"queue_depth","queue":"q","threshold":0,"notify":"`+hook.ID+`"}`)
	if e := <-to.got; e.Event != "alert_fired" || e.Rule.ID != rule.ID || !e.Firing {
		t.Errorf("sent %+v", e)
	}
	n.ok(nil, "POST", "/queues/q/clear", "")
	if e := <-to.got; e.Event != "alert_resolved" || e.Rule.ID != rule.ID || e.Firing {
		t.Errorf("sent %+v", e)
	}
	if len(other.got) > 0 {
		t.Errorf("the other webhook was sent %+v", <-other.got)
	}
}
