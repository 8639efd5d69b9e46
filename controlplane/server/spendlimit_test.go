package server

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// An organisation sets, raises and removes its spend limit. The answer has the spend of the bill's preview, and the alerts
// and the hold that the reconciler records.
func TestSpendLimit(t *testing.T) {
	t.Parallel()
	f, admin := startHour(t, "2031-02-10T12:30:00Z")
	path := cloud + "/orgs/acme/spend-limit"
	ask := func(status int, method, path, token, body string) (l api.SpendLimit) {
		t.Helper()
		a := f.send(method, path, token, body)
		if a.status != status {
			t.Fatalf("%s %s %s: %d %s, want %d", method, path, body, a.status, a.body, status)
		}
		if status < 300 {
			if err := json.Unmarshal(a.body, &l); err != nil {
				t.Fatal(err)
			}
		}
		return l
	}
	prod := f.namespace("acme", "prod")
	ask(200, "PUT", cloud+"/orgs/acme/plan", admin, `{"plan":"payg"}`)
	f.use(prod, "2031-02-10T13:00:00Z", 1, used(billing.OutputTokens, 51_000_000)) // 50 million at 0.02 USD a million
	if l := ask(200, "GET", path, admin, ""); l.LimitUSD != nil || l.Period != "2031-02" || l.SpendUSD.String() != "1" || l.Held || l.Alerts == nil || l.Raises == nil || l.AsOf == nil {
		t.Errorf("without a limit: %+v", l)
	}
	expires := f.now().Add(time.Hour).UTC().Format(time.RFC3339)
	raise := func(usd string) string {
		return `{"amount_usd":` + usd + `,"reason":"a launch","expires_at":"` + expires + `"}`
	}
	ask(409, "POST", path+"/raise", admin, raise("0.1"))
	if l := ask(200, "PUT", path, admin, `{"limit_usd":0.9}`); l.LimitUSD.String() != "0.9" || l.OverLimitUSD.String() != "0.1" || l.SetBy == "" || l.SetAt == nil {
		t.Errorf("with a limit: %+v", l)
	}
	month, _ := billing.Month.Window(f.now(), time.UTC)
	spend := &store.RecordSpend{Meta: &store.Meta{Principal: "test"}, Org: f.acme(), MonthNs: month.UnixNano(), SpendNanoUsd: 1_000_000_000}
	f.propose(spend)
	if l := ask(200, "GET", path, admin, ""); !l.Held || l.HeldSince == nil || len(l.Alerts) != 4 || l.Alerts[3].Percent != 100 || l.Alerts[3].LimitUSD.String() != "0.9" || l.Alerts[0].SpendUSD.String() != "1" {
		t.Errorf("held: %+v", l)
	}
	ask(403, "POST", path+"/raise", admin, raise("0.900000001"))
	ask(201, "POST", path+"/raise", admin, raise("0.9"))
	l := ask(201, "POST", path+"/raise", f.operator, raise("5"))
	if len(l.Raises) != 2 || l.Raises[0].Operator || !l.Raises[1].Operator || l.Raises[0].Reason != "a launch" || l.EffectiveUSD.String() != "6.8" || l.OverLimitUSD != 0 {
		t.Errorf("raised: %+v", l)
	}
	f.propose(spend)
	if l := ask(200, "GET", path, admin, ""); l.Held {
		t.Errorf("raised and held: %+v", l)
	}
	for body, says := range map[string]string{
		`{"amount_usd":1,"reason":"x"}`: "expires_at is missing", `{"amount_usd":1,"reason":"x","expires_at":"tea"}`: "expires_at",
		strings.Replace(raise("1"), "a launch", "", 1): "reason",
	} {
		if a := f.send("POST", path+"/raise", admin, body); a.status != 400 || !strings.Contains(string(a.body), says) {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	for _, body := range []string{`{}`, `{"limit_usd":0}`, `{"limit_usd":1000000.000000001}`} {
		ask(400, "PUT", path, admin, body)
	}
	reader := f.credential(keyring.Org, f.acme(), tenancy.ReadOnly)
	ask(403, "GET", path, reader, "")
	ask(403, "PUT", path, reader, `{"limit_usd":1}`)
	ask(403, "DELETE", path, reader, "")
	if l := ask(200, "DELETE", path, admin, ""); l.LimitUSD != nil || l.EffectiveUSD != nil || l.Held || len(l.Raises) != 2 {
		t.Errorf("without a limit again: %+v", l)
	}
}
