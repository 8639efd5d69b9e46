package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// TestAnAlertSurvivesKill kills the node again and again while a rule fires and while its webhook cannot be
// reached. The webhook receives each change, and none twice except for an attempt that a kill interrupted.
func TestAnAlertSurvivesKill(t *testing.T) {
	t.Parallel()
	to := newListener(t)
	dir := t.TempDir()
	var p *process
	var c *client.Client
	start := func() {
		t.Helper()
		p = startServer(t, "--data-dir", dir, "--webhook-allow-private")
		c = newClient(t, p.endpoint, adminKey(t, dir))
	}
	ask := func(into any, method, path, body string) {
		t.Helper()
		askNode(t, p.endpoint, adminKey(t, dir), into, method, path, body)
	}
	start()
	var hook api.Webhook
	ask(&hook, "POST", "/webhooks", fmt.Sprintf(`{"url":%q,"secret":"0123456789abcdef","retry_limit":20}`, to.URL))
	var rule api.AlertRule
	ask(&rule, "POST", "/alerts", fmt.Sprintf(`{"name":"n","when":"queue_depth","queue":"q","threshold":0,"notify":%q}`, hook.ID))
	if _, err := c.Enqueue(t.Context(), api.EnqueueRequest{Queue: "q"}); err != nil {
		t.Fatal(err)
	}
	is := func(state string) func() bool {
		return func() bool { ask(&rule, "GET", "/alerts/"+rule.ID, ""); return rule.State == state }
	}
	eventually(t, t.Context(), "the rule fires", is(api.AlertFiring))
	p.Kill(t)
	to.up.Store(true)
	start()
	eventually(t, t.Context(), "the webhook is told", func() bool { return to.told() != "" })
	delivered := func() bool {
		var all []api.Delivery
		ask(&all, "GET", "/webhooks/"+hook.ID+"/deliveries", "")
		return len(all) > 0 && all[0].State == api.DeliveryDelivered
	}
	eventually(t, t.Context(), "that is known", delivered)
	for range 2 { // the rule goes on firing, without another notification
		p.Kill(t)
		start()
		var test api.WebhookTest
		ask(&test, "POST", "/webhooks/"+hook.ID+"/test", "{}")
		eventually(t, t.Context(), "a test comes through", delivered)
	}
	if f, err := c.Fetch(t.Context(), api.FetchRequest{Queues: []string{"q"}}); err != nil || f == nil {
		t.Fatalf("%v, %v", f, err)
	}
	eventually(t, t.Context(), "the rule is well again", is(api.AlertOK))
	p.Kill(t)
	start()
	eventually(t, t.Context(), "the webhook is told of that", func() bool { return strings.HasSuffix(to.told(), "alert_resolved") })
	eventually(t, t.Context(), "that is known too", delivered)
	// The webhook may have received a delivery twice that a kill interrupted.
	once := strings.ReplaceAll(to.told(), "alert_resolved alert_resolved", "alert_resolved")
	if want := "alert_fired test test alert_resolved"; once != want {
		t.Errorf("told %q, want %q", to.told(), want)
	}
}

// listener keeps the events that a webhook receives while it is up.
type listener struct {
	*httptest.Server
	up  atomic.Bool
	mu  sync.Mutex
	got []string
}

func newListener(t *testing.T) *listener {
	l := &listener{}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e api.AlertEvent
		if !l.up.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			t.Error(err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.got = append(l.got, e.Event)
	}))
	t.Cleanup(l.Close)
	return l
}

// told returns the events in their order.
func (l *listener) told() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.got, " ")
}

// askNode makes a request that must succeed.
func askNode(t *testing.T, endpoint, key string, into any, method, path, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, endpoint+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil || resp.StatusCode > 299 {
		t.Fatalf("%s %s: %d %v", method, path, resp.StatusCode, err)
	}
}
