package server

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// startHour returns a front whose clock stands in the middle of a month, and the administrator's token of acme.
func startHour(t *testing.T, text string) (*front, string) {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	f, _ := start(t)
	f.ahead.Store(int64(time.Until(at)))
	return f, f.credential(keyring.Org, f.acme(), tenancy.Admin)
}

// use records a quantity of a meter in an hour.
func (f *front) use(ns, hour string, from uint64, rows ...*store.UsageRow) {
	f.t.Helper()
	at, err := time.Parse(time.RFC3339, hour)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, r := range rows {
		r.HourNs = at.UnixNano()
	}
	f.propose(&store.ApplyUsage{Meta: &store.Meta{Principal: "test"}, Namespace: ns, Stream: "shard/0", Incarnation: "ab", From: from, To: from, Rows: rows})
}

func used(m billing.Meter, quantity int64) *store.UsageRow {
	return &store.UsageRow{Queue: "mail", Meter: uint32(m), Quantity: quantity}
}

// The preview has the documented fields, and rates the usage of the running month by the plans of its hours.
func TestInvoicePreview(t *testing.T) {
	t.Parallel()
	f, admin := startHour(t, "2031-02-10T12:30:00Z")
	prod := f.namespace("acme", "prod")
	if a := f.send("PUT", cloud+"/orgs/acme/plan", admin, `{"plan":"payg"}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	model := used(billing.Cost, 1_250_000_001)
	model.Provider, model.Model = "anthropic", "claude"
	for amount, expires := range map[string]int64{"0.015": 0, "0.02": f.now().Add(24 * time.Hour).UnixNano()} { // the second expires before the month ends
		nano, err := api.ParseUSD(amount)
		if err != nil {
			t.Fatal(err)
		}
		f.propose(&store.GrantCredit{Meta: &store.Meta{Principal: "test"}, Id: "credit_" + amount[2:], Org: f.acme(), Currency: billing.USD, Amount: int64(nano), Reason: "test", ExpiresNs: expires})
	}
	f.use(prod, "2031-01-31T23:00:00Z", 1, used(billing.OutputTokens, math.MaxInt64)) // another month
	f.use(prod, "2031-02-10T12:00:00Z", 2, used(billing.OutputTokens, 500_000))
	f.use(prod, "2031-02-10T13:00:00Z", 3, used(billing.OutputTokens, 2_500_000), model)
	var got map[string]any
	a := f.send("GET", cloud+"/orgs/acme/invoices/preview", admin, "")
	if err := json.Unmarshal(a.body, &got); err != nil || a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(got["as_of"])); err != nil || f.now().Sub(at) > time.Hour {
		t.Errorf("as of %v: %v", got["as_of"], err)
	}
	delete(got, "as_of")
	line := func(version string, tier, quantity int, price, amount string) string {
		return fmt.Sprintf(`{"meter":"output_tokens","namespace":%q,"tier":%d,"price_version":%q,"quantity":%d,"per":1000000,"unit_price":%q,"amount":%q,
			"rows_url":"/cloud/v1/namespaces/%s/usage?from=2031-02-01&to=2031-03-01&group_by=day"}`, prod, tier, version, quantity, price, amount, prod)
	}
	var want map[string]any
	err := json.Unmarshal([]byte(`{"period":"2031-02","currency":"USD","lines":[`+strings.Join([]string{
		line("free-1", 1, 500_000, "0", "0"), line("payg-1", 0, 500_000, "0", "0"), line("payg-1", 1, 2_000_000, "0.02", "0.04"),
	}, ",")+`],"rounding":"0","subtotal":"0.04","credits":"0.01","carried_forward":"0.03","total":"0",
		"llm_cost":{"total":"1.250000001","by_model":[{"provider":"anthropic","model":"claude","cost":"1.250000001"}]}}`), &want)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the preview is %s", a.body)
	}
	rows, _ := want["lines"].([]any)[0].(map[string]any)["rows_url"].(string)
	if a := f.send("GET", rows, admin, ""); a.status != 200 || !strings.Contains(string(a.body), `"key":"2031-02-10","reports":0,"rejected_reports":0,"input_tokens":0,"output_tokens":3000000`) {
		t.Errorf("the rows of the line: %d %s", a.status, a.body)
	}
}

// A bill that is too large is an error, and not a smaller bill.
func TestAnInvoicePreviewThatIsTooLarge(t *testing.T) {
	t.Parallel()
	f, admin := startHour(t, "2031-02-10T12:30:00Z")
	prod := f.namespace("acme", "prod")
	if a := f.send("PUT", cloud+"/orgs/acme/plan", f.operator, `{"plan":"payg","overrides":{"prices":[{"meter":"output_tokens","per":1,"tiers":[{"unit_price":"1"}]}]}}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	f.use(prod, "2031-02-10T13:00:00Z", 1, used(billing.OutputTokens, math.MaxInt64))
	if a := f.send("GET", cloud+"/orgs/acme/invoices/preview", admin, ""); a.status != 500 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func (f *front) plan(key string) (p api.PlanHistory) {
	f.t.Helper()
	a := f.send("GET", cloud+"/orgs/acme/plan", key, "")
	if err := json.Unmarshal(a.body, &p); err != nil || a.status != 200 {
		f.t.Fatalf("%d %s", a.status, a.body)
	}
	return p
}

// An organisation begins with the plan free. Its owner changes to payg and back, and operators make agreements.
func TestPlan(t *testing.T) {
	t.Parallel()
	f, admin := startHour(t, "2031-02-10T12:30:00Z")
	if p := f.plan(admin); p.Plan != "free" || p.From != nil || p.Charges.PriceVersion != "free-1" || len(p.Changes) != 0 {
		t.Errorf("a new organisation has %+v", p)
	}
	set := func(key, body string, want api.Code) string {
		t.Helper()
		a := f.send("PUT", cloud+"/orgs/acme/plan", key, body)
		if want == "" && a.status != 200 || want != "" && a.problem(t).Code != want {
			t.Errorf("%s: %d %s, want %s", body, a.status, a.body, want)
		}
		return string(a.body)
	}
	set(admin, `{"plan":"payg"}`, "")
	set(admin, `{"plan":"committed"}`, api.Forbidden)
	set(admin, `{"plan":"payg","overrides":{"discount_percent":1}}`, api.Forbidden)
	if p := f.plan(admin); p.Plan != "free" || len(p.Changes) != 1 || p.Changes[0].Plan != "payg" || p.Changes[0].From != "2031-02-10T13:00:00Z" || p.Changes[0].Overrides != nil {
		t.Errorf("the change has not begun: %+v", p)
	}
	for body, says := range map[string]string{
		`{"plan":"gold"}`: `plan \"gold\" is none: use one of [free payg committed]`,
		`{}`:              `plan \"\" is none`,
		`{"plan":"payg","overrides":{"minimum":"1.0000000001"}}`:                                                                         "overrides.minimum",
		`{"plan":"payg","overrides":{"monthly_fee":"-1"}}`:                                                                               "overrides are not valid: a fee or a minimum is negative",
		`{"plan":"payg","overrides":{"prices":[{"meter":"output_tokens","per":1,"tiers":[{"unit_price":"x"}]}]}}`:                        "overrides.prices[0].tiers[0].unit_price",
		`{"plan":"payg","overrides":{"prices":[{"meter":"tea","per":1,"tiers":[{"unit_price":"1"}]}]}}`:                                  "there is no meter",
		`{"plan":"payg","overrides":{"prices":[{"meter":"output_tokens","per":1,"tiers":[{"up_to":1,"unit_price":"1"}]}]}}`:              "every tier but the last",
		`{"plan":"payg","overrides":{"prices":[{"meter":"output_tokens","per":1,"tiers":[{"unit_price":"1"}]}],"tea":1}}`:                "tea",
		`{"plan":"payg","overrides":{"discount_percent":101,"prices":[{"meter":"output_tokens","per":1,"tiers":[{"unit_price":"1"}]}]}}`: "a discount of 101 percent",
	} {
		if got := set(f.operator, body, api.ValidationError); !strings.Contains(got, says) {
			t.Errorf("%s: %s does not say %s", body, got, says)
		}
	}
	if got := set(f.operator, `{"plan":"resale"}`, api.Unsupported); !strings.Contains(got, "resale is not built yet") {
		t.Errorf("resale: %s", got)
	}
	set(f.operator, `{"plan":"committed","overrides":{"minimum":"12.5","prices":[{"meter":"output_tokens","unit":"token","per":10,"included":3,"tiers":[{"up_to":5,"unit_price":"1"},{"unit_price":"0.5"}]}]}}`, "")
	f.ahead.Add(int64(time.Hour))
	p := f.plan(admin)
	if p.Plan != "committed" || p.From == nil || *p.From != "2031-02-10T13:00:00Z" || p.Charges.PriceVersion != "committed-1@2031-02-10T13Z" || p.Charges.Minimum != "12.5" || p.Charges.DiscountPercent != 20 {
		t.Errorf("the agreement is %+v", p)
	}
	want := []api.PlatformPrice{{Meter: "output_tokens", Unit: "token", Per: 10, Included: 3, Tiers: []api.PlatformTier{{UpTo: 5, UnitPrice: "1"}, {UnitPrice: "0.5"}}}}
	if len(p.Changes) != 1 || p.Changes[0].Overrides == nil || !reflect.DeepEqual(p.Changes[0].Overrides.Prices, want) || *p.Changes[0].Overrides.Minimum != "12.5" || p.Changes[0].Overrides.MonthlyFee != nil {
		t.Errorf("the changes are %+v", p.Changes)
	}
	if last := p.Charges.Prices[len(p.Charges.Prices)-1]; !reflect.DeepEqual(last, want[0]) {
		t.Errorf("output tokens cost %+v", last)
	}
	set(admin, `{"plan":"free"}`, api.Forbidden)
	// Overrides that replace nothing are none.
	set(f.operator, `{"plan":"payg","overrides":{}}`, "")
	if p := f.plan(admin); len(p.Changes) != 2 || p.Changes[1].From != "2031-03-01T00:00:00Z" || p.Changes[1].Overrides != nil {
		t.Errorf("the changes are %+v", p.Changes)
	}
}

// The preview as CSV has the names of the organisation and its namespaces, and its costs sum to what is to pay.
func TestInvoicePreviewAsCSV(t *testing.T) {
	t.Parallel()
	f, admin := startHour(t, "2031-02-10T12:30:00Z")
	prod := f.namespace("acme", "prod")
	if a := f.send("PUT", cloud+"/orgs/acme/plan", admin, `{"plan":"payg"}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	f.propose(&store.GrantCredit{Meta: &store.Meta{Principal: "test"}, Id: "credit_1", Org: f.acme(), Currency: billing.USD, Amount: 10_000_000, Reason: "test"})
	f.use(prod, "2031-02-10T13:00:00Z", 1, used(billing.OutputTokens, 3_700_000))
	text, err := f.cloud(admin).InvoicePreviewCSV(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	records, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil || len(records) != 6 || !slices.Equal(records[0], billing.FocusColumns) {
		t.Fatalf("%v, %s", err, text)
	}
	var got []string
	for _, r := range records[1:] {
		var values []string
		for _, column := range []string{"BillingAccountId", "BillingAccountName", "SubAccountId", "SubAccountName", "ChargeCategory", "ConsumedQuantity", "BilledCost"} {
			values = append(values, r[slices.Index(billing.FocusColumns, column)])
		}
		got = append(got, strings.Join(values, " "))
	}
	of := f.acme() + " acme "
	want := []string{of + prod + " prod Usage 1000000 0", of + prod + " prod Usage 2700000 0.054", of + "  Adjustment  -0.004", of + "  Credit  -0.01", of + "  Adjustment  -0.04"}
	if !slices.Equal(got, want) {
		t.Errorf("the CSV has %q, want %q", got, want)
	}
	a := f.send("GET", cloud+"/orgs/acme/invoices/preview?format=csv", admin, "")
	if a.header.Get("Content-Type") != "text/csv; charset=utf-8" || a.header.Get("Content-Disposition") != "attachment; filename=acme-2031-02.csv" {
		t.Errorf("the headers are %v", a.header)
	}
	if a := f.send("GET", cloud+"/orgs/acme/invoices/preview?format=xml", admin, ""); a.problem(t).Code != api.ValidationError {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := f.send("GET", cloud+"/orgs/acme/invoices/preview?format=json", admin, ""); a.status != 200 || a.header.Get("Content-Type") != "application/json" {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// Only the roles admin and billing of the organisation, and operators, see bills and plans.
func TestWhoSeesBills(t *testing.T) {
	t.Parallel()
	f, admin := startHour(t, "2031-02-10T12:30:00Z")
	org := f.acme()
	other := f.credential(keyring.Org, f.org("other"), tenancy.Admin)
	_, billingToken := f.made(cloud+"/orgs/acme/keys", admin, "billing")
	for _, c := range []struct {
		name, key    string
		bills, price int
	}{
		{"admin", admin, 200, 200}, {"billing", billingToken, 200, 200}, {"operator of the cloud", f.operator, 200, 200},
		{"operator", f.credential(keyring.Org, org, tenancy.Operator), 403, 200},
		{"readonly", f.credential(keyring.Org, org, tenancy.ReadOnly), 403, 200},
		{"another organisation", other, 404, 200}, {"nobody", "", 401, 401},
	} {
		for path, want := range map[string]int{"/orgs/acme/plan": c.bills, "/orgs/acme/invoices/preview": c.bills, "/orgs/acme/invoices": c.bills, "/prices": c.price} {
			if a := f.send("GET", cloud+path, c.key, ""); a.status != want {
				t.Errorf("%s, %s: %d %s, want %d", c.name, path, a.status, a.body, want)
			}
		}
		if a := f.send("PUT", cloud+"/orgs/acme/plan", c.key, `{"plan":"payg"}`); a.status != c.bills {
			t.Errorf("%s changes the plan: %d %s, want %d", c.name, a.status, a.body, c.bills)
		}
	}
	// A billing token sees namespaces, and changes nothing but the plan. A namespace's key cannot have the role.
	for path, want := range map[string]int{"GET /orgs/acme/namespaces": 200, "GET /orgs/acme/usage": 200, "POST /orgs/acme/namespaces": 403, "POST /orgs/acme/keys": 403} {
		method, path, _ := strings.Cut(path, " ")
		if a := f.send(method, cloud+path, billingToken, ""); a.status != want {
			t.Errorf("%s %s: %d %s, want %d", method, path, a.status, a.body, want)
		}
	}
	f.namespace("acme", "prod")
	if a := f.send("POST", cloud+"/namespaces/prod/keys", admin, `{"name":"x","roles":["billing"]}`); a.status != 400 {
		t.Errorf("a namespace's key with the role billing: %d %s", a.status, a.body)
	}
}

func TestPlatformPrices(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	got, err := f.cloud(admin).PlatformPrices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var plans []string
	for _, v := range got.Versions {
		plans = append(plans, v.Plan+" "+v.PriceVersion)
		for _, p := range v.Prices {
			if p.Unit == "" || len(p.Tiers) == 0 || p.Tiers[0].UnitPrice == "" {
				t.Errorf("%s charges %+v", v.Plan, p)
			}
		}
	}
	if want := []string{"free free-1", "payg payg-1", "committed committed-1"}; !reflect.DeepEqual(plans, want) || got.Currency != "USD" {
		t.Errorf("the plans are %v in %s, want %v", plans, got.Currency, want)
	}
}
