package stripefake

import (
	"net/http"
	"strings"
	"testing"
)

// saveCard completes a checkout of a customer and makes the card the default.
func (f *fixture) saveCard(customer string) {
	f.t.Helper()
	session := f.do("POST", "/v1/checkout/sessions", "mode=setup", "customer="+customer, "currency=usd", "success_url=https://app/done?s={CHECKOUT_SESSION_ID}", "cancel_url=https://app/back")
	resp, err := f.http.Post(session["url"].(string), "", strings.NewReader(""))
	if err != nil {
		f.t.Fatal(err)
	}
	_ = resp.Body.Close()
	if to := resp.Header.Get("Location"); resp.StatusCode != http.StatusSeeOther || to != "https://app/done?s="+session["id"].(string) {
		f.t.Fatalf("the page answered %d and leads to %q", resp.StatusCode, to)
	}
	done := f.do("GET", "/v1/checkout/sessions/"+session["id"].(string), "expand[0]=setup_intent")
	intent := done["setup_intent"].(object)
	if done["status"] != "complete" || intent["status"] != "succeeded" {
		f.t.Fatalf("the session is %v", done)
	}
	f.do("POST", "/v1/customers/"+customer, "invoice_settings[default_payment_method]="+intent["payment_method"].(string))
}

func TestPagesLeadBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	customer := f.customer()
	f.saveCard(customer)
	f.saveCard(customer)
	configuration := f.do("POST", "/v1/billing_portal/configurations", "features[invoice_history][enabled]=true")["id"].(string)
	portal := f.do("POST", "/v1/billing_portal/sessions", "customer="+customer, "configuration="+configuration, "return_url=https://app/billing")
	session := f.do("POST", "/v1/checkout/sessions", "mode=setup", "customer="+customer, "currency=usd", "success_url=https://app/done", "cancel_url=https://app/back")
	for url, want := range map[string]string{portal["url"].(string): `href="https://app/billing"`, session["url"].(string): `href="https://app/back"`, f.url + "/pages/portal/none": "404"} {
		resp, err := f.http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		text := new(strings.Builder)
		_ = resp.Write(text)
		_ = resp.Body.Close()
		if !strings.Contains(text.String(), want) {
			t.Errorf("%s has no %s:\n%s", url, want, text)
		}
	}
	f.refuses(400, "", "POST", "/v1/checkout/sessions", "mode=payment", "customer="+customer, "currency=usd", "success_url=https://app/done")
}
