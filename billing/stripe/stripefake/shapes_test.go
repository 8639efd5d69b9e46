package stripefake

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// mockVersion is the version of stripe-mock that knows the shapes of the fake's API version.
const mockVersion = "v0.185.0"

// startMock starts stripe-mock on a free port and returns its URL. It skips the test if stripe-mock is not installed.
func startMock(t *testing.T) string {
	t.Helper()
	binary := os.Getenv("STRIPE_MOCK")
	if binary == "" {
		var err error
		if binary, err = exec.LookPath("stripe-mock"); err != nil {
			t.Skipf("stripe-mock is not installed: run go install github.com/stripe/stripe-mock@%s, or set STRIPE_MOCK to its path", mockVersion)
		}
	}
	cmd := exec.CommandContext(t.Context(), binary, "-http-addr", "127.0.0.1:0", "-https-addr", "127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if address := regexp.MustCompile(`HTTP at address: (\S+)`).FindStringSubmatch(lines.Text()); address != nil {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return "http://" + address[1]
		}
	}
	t.Fatalf("stripe-mock did not start: %v", lines.Err())
	return ""
}

// TestTheShapesAreThoseOfStripeMock sends the same requests to the fake and to stripe-mock. stripe-mock must accept each
// request, and each field that the fake answers must be one of stripe-mock's, with the same type.
func TestTheShapesAreThoseOfStripeMock(t *testing.T) {
	t.Parallel()
	mock := startMock(t)
	f := newFixture(t)
	customer := f.customer()
	invoice := f.do("POST", "/v1/invoices", "customer="+customer, "automatic_tax[enabled]=true")["id"].(string)
	other := f.do("POST", "/v1/invoices", "customer="+customer)["id"].(string)
	meter := f.meter()
	f.saveCard(customer)
	session := f.do("POST", "/v1/checkout/sessions", "mode=setup", "customer="+customer, "currency=usd", "success_url=https://app")["id"].(string)
	configuration := f.do("POST", "/v1/billing_portal/configurations", "features[invoice_history][enabled]=true")["id"].(string)
	endpoint := f.do("POST", "/v1/webhook_endpoints", "url=https://app", "enabled_events[0]=*")["id"].(string)
	reached := map[string]bool{}
	for _, c := range []struct {
		route, path string
		params      []string
	}{
		{"POST /v1/customers", "", []string{"email=a@example.com", "name=A", "address[country]=DE", "metadata[corvo_org]=o"}},
		{"GET /v1/customers", "", []string{"limit=2"}},
		{"GET /v1/customers/search", "", []string{"query=metadata['corvo_org']:'org_1'"}},
		{"GET /v1/customers/{id}", customer, nil},
		{"POST /v1/customers/{id}", customer, []string{"name=B"}},
		{"POST /v1/invoices", "", []string{"customer=" + customer, "auto_advance=false", "pending_invoice_items_behavior=exclude", "collection_method=charge_automatically", "currency=usd", "automatic_tax[enabled]=true", "metadata[a]=b", "description=x"}},
		{"GET /v1/invoices", "", []string{"customer=" + customer, "status=draft"}},
		{"GET /v1/invoices/{id}", invoice, nil},
		{"POST /v1/invoiceitems", "", []string{"customer=" + customer, "invoice=" + invoice, "amount=100", "currency=usd", "description=x", "metadata[a]=b", "period[start]=1", "period[end]=2", "discountable=false"}},
		{"POST /v1/invoiceitems", "", []string{"customer=" + customer, "invoice=" + other, "amount=100", "currency=usd"}},
		{"GET /v1/invoiceitems", "", []string{"invoice=" + invoice}},
		{"POST /v1/invoices/{id}/finalize", invoice, []string{"auto_advance=false"}},
		{"POST /v1/invoices/{id}/finalize", other, nil},
		{"POST /v1/invoices/{id}/pay", invoice, []string{"off_session=true"}},
		{"POST /v1/invoices/{id}/void", other, nil},
		{"POST /v1/billing/meters", "", []string{"display_name=T", "event_name=tokens", "event_time_window=hour", "default_aggregation[formula]=sum", "customer_mapping[event_payload_key]=stripe_customer_id", "customer_mapping[type]=by_id", "value_settings[event_payload_key]=value"}},
		{"GET /v1/billing/meters", "", []string{"status=active"}},
		{"POST /v1/billing/meters/{id}", meter, []string{"display_name=J"}},
		{"POST /v1/billing/meters/{id}/deactivate", meter, nil},
		{"POST /v1/billing/meters/{id}/reactivate", meter, nil},
		{"POST /v1/billing/meter_events", "", event(customer, "a", start, "5")},
		{"GET /v1/billing/meters/{id}/event_summaries", meter, []string{"customer=" + customer, fmt.Sprintf("start_time=%d", start.Unix()), fmt.Sprintf("end_time=%d", start.Add(time.Hour).Unix()), "value_grouping_window=hour"}},
		{"POST /v1/checkout/sessions", "", []string{"mode=setup", "customer=" + customer, "currency=usd", "success_url=https://app", "cancel_url=https://app", "metadata[a]=b", "client_reference_id=o"}},
		{"GET /v1/checkout/sessions/{id}", session, []string{"expand[0]=setup_intent"}},
		{"GET /v1/setup_intents/{id}", f.Objects("setup_intent")[0]["id"].(string), nil},
		{"POST /v1/billing_portal/sessions", "", []string{"customer=" + customer, "return_url=https://app", "configuration=" + configuration}},
		{"POST /v1/billing_portal/configurations", "", []string{"business_profile[headline]=x", "features[invoice_history][enabled]=true", "features[payment_method_update][enabled]=true", "features[customer_update][enabled]=false", "features[subscription_cancel][enabled]=false", "default_return_url=https://app", "metadata[a]=b"}},
		{"GET /v1/billing_portal/configurations", "", []string{"active=true"}},
		{"POST /v1/billing_portal/configurations/{id}", configuration, []string{"active=true", "default_return_url=https://app"}},
		{"POST /v1/webhook_endpoints", "", []string{"url=https://app", "enabled_events[0]=invoice.paid", "api_version=" + APIVersion, "description=x", "metadata[a]=b"}},
		{"GET /v1/webhook_endpoints", "", []string{"limit=5"}},
		{"POST /v1/webhook_endpoints/{id}", endpoint, []string{"disabled=true", "enabled_events[0]=invoice.paid"}},
		{"DELETE /v1/webhook_endpoints/{id}", endpoint, nil},
	} {
		reached[c.route] = true
		method, path, _ := strings.Cut(strings.ReplaceAll(c.route, "{id}", c.path), " ")
		if c.path == meter {
			f.clock.Advance(DefaultSummaryLag)
		}
		ours := f.do(method, path, c.params...)
		for _, difference := range differences(c.route, ours, ask(t, mock, method, path, c.params)) {
			t.Error(difference)
		}
	}
	for _, r := range routes {
		if !reached[r.pattern] {
			t.Errorf("no request reaches %s", r.pattern)
		}
	}
}

// ask sends a request to stripe-mock, which refuses parameters that Stripe does not have.
func ask(t *testing.T, mock, method, path string, params []string) (o object) {
	t.Helper()
	target, body := mock+path, ""
	if form := values(params...).Encode(); method == http.MethodPost {
		body = form
	} else {
		target += "?" + form
	}
	r, err := http.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer sk_test_123")
	r.Header.Set("Stripe-Version", APIVersion)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&o); err != nil || resp.StatusCode != 200 {
		t.Fatalf("stripe-mock refuses %s %s %v: %d %v, %v", method, path, params, resp.StatusCode, o, err)
	}
	return o
}

// absent lists fields that stripe-mock's example objects lack, although they are in Stripe's specification.
var absent = map[string]bool{"secret": true, "deleted": true, "next_page": true}

// differences compares the fields of two answers. A null of either side fits everything.
func differences(at string, ours, theirs any) (all []string) {
	switch o := ours.(type) {
	case nil:
	case object:
		t, ok := theirs.(object)
		if !ok && theirs != nil {
			return []string{fmt.Sprintf("%s is an object, stripe-mock has %T", at, theirs)}
		}
		if strings.HasSuffix(at, ".metadata") || strings.HasSuffix(at, ".payload") || strings.HasSuffix(at, ".address") || t == nil {
			return nil
		}
		for name := range maps.Keys(o) {
			if _, ok := t[name]; !ok && !absent[name] {
				all = append(all, fmt.Sprintf("%s.%s is not in stripe-mock's answer", at, name))
				continue
			}
			all = append(all, differences(at+"."+name, o[name], t[name])...)
		}
	case []any:
		t, ok := theirs.([]any)
		if !ok && theirs != nil {
			return []string{fmt.Sprintf("%s is a list, stripe-mock has %T", at, theirs)}
		}
		for i := range min(len(o), len(t), 1) {
			all = append(all, differences(fmt.Sprintf("%s[%d]", at, i), o[i], t[i])...)
		}
	default:
		if theirs != nil && fmt.Sprintf("%T", ours) != fmt.Sprintf("%T", theirs) {
			return []string{fmt.Sprintf("%s is %T, stripe-mock has %T", at, ours, theirs)}
		}
	}
	return all
}
