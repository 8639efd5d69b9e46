package store

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
)

// byOwner returns the op by which the owner of acme changes its plan, byOperator that of an operator.
func byOwner(plan billing.Plan) *SetPlan {
	return &SetPlan{Meta: by("owner"), Org: "org_acme", Plan: string(plan)}
}

func byOperator(plan billing.Plan, overrides string) *SetPlan {
	return &SetPlan{Meta: by("op"), Org: "org_acme", Plan: string(plan), Overrides: []byte(overrides), Operator: true}
}

// wantPlans compares the history of acme's plan, such as "2026-02-10T13 payg owner".
func (w *world) wantPlans(when string, want ...string) {
	w.t.Helper()
	all, err := w.store().PlanHistory(w.t.Context(), "org_acme")
	if err != nil {
		w.t.Fatal(err)
	}
	got := []string{}
	for _, c := range all {
		line := fmt.Sprintf("%s %s %s", time.Unix(0, c.FromNs).UTC().Format("2006-01-02T15"), c.Plan, c.By)
		if c.Overrides != nil {
			line += " overridden"
		}
		got = append(got, line)
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("%s: the plans are %q, want %q", when, got, want)
	}
}

// at moves the clock to a time.
func (w *world) at(text string) {
	w.t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || at.UnixNano() < w.clockNs {
		w.t.Fatalf("%s is no later time: %v", text, err)
	}
	w.clockNs = at.UnixNano()
}

// An upgrade begins with the next hour, a downgrade with the next month, and a later change replaces one that has not begun.
func TestPlansBegin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"))
	w.refused(api.NotFound, &SetPlan{Meta: by("op"), Org: "org_none", Plan: "free"})
	w.at("2031-02-10T12:30:00Z")
	w.ok(byOwner(billing.Free))
	w.wantPlans("no change")
	w.ok(byOwner(billing.PayAsYouGo), byOwner(billing.Free))
	w.wantPlans("changed back within the hour")
	w.ok(byOwner(billing.PayAsYouGo), byOwner(billing.PayAsYouGo))
	w.wantPlans("upgraded", "2031-02-10T13 payg owner")
	w.at("2031-02-10T13:00:00Z")
	w.ok(byOwner(billing.Free))
	w.wantPlans("downgraded", "2031-02-10T13 payg owner", "2031-03-01T00 free owner")
	w.ok(byOwner(billing.PayAsYouGo))
	w.wantPlans("stayed", "2031-02-10T13 payg owner")
	w.ok(byOwner(billing.Free))
	w.at("2031-03-01T00:00:00Z")
	w.ok(byOwner(billing.PayAsYouGo))
	w.reopen()
	w.wantPlans("upgraded again", "2031-02-10T13 payg owner", "2031-03-01T00 free owner", "2031-03-01T01 payg owner")
	rows, err := w.store().Audit(t.Context(), "org_acme", 0, MaxPage)
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, r := range rows {
		if r.Action == "set-plan" {
			targets = append(targets, strings.TrimPrefix(r.Target, "org_acme/"))
		}
	}
	if got := strings.Join(targets, " "); got != "payg free payg payg free payg free payg" {
		t.Errorf("the audit log has the changes %s", got)
	}
}

// Only operators change an agreement: the plan committed, and overrides.
func TestAgreementsAreOperators(t *testing.T) {
	t.Parallel()
	const overrides = `{"discount_percent":30}`
	w := newWorld(t)
	w.ok(newOrg("acme"))
	w.at("2031-02-10T12:30:00Z")
	w.refused(api.Forbidden, byOwner(billing.Committed))
	own := byOwner(billing.PayAsYouGo)
	own.Overrides = []byte(overrides)
	w.refused(api.Forbidden, own)
	w.ok(byOperator(billing.PayAsYouGo, overrides))
	w.refused(api.Forbidden, byOwner(billing.Free)) // would replace the agreement that has not begun
	w.at("2031-02-10T13:00:00Z")
	w.refused(api.Forbidden, byOwner(billing.Free))
	w.ok(byOperator(billing.PayAsYouGo, `{"discount_percent":40}`))
	w.wantPlans("other overrides", "2031-02-10T13 payg op overridden", "2031-02-10T14 payg op overridden")
	w.ok(byOperator(billing.Committed, ""))
	w.at("2031-02-10T14:00:00Z")
	w.refused(api.Forbidden, byOwner(billing.PayAsYouGo))
	w.ok(byOperator(billing.PayAsYouGo, ""))
	w.wantPlans("the agreement ends", "2031-02-10T13 payg op overridden", "2031-02-10T14 committed op", "2031-03-01T00 payg op")
	w.at("2031-03-01T00:00:00Z")
	w.ok(byOwner(billing.Free))
}

func TestSetPlanValidate(t *testing.T) {
	t.Parallel()
	for says, o := range map[string]*SetPlan{
		`plan is "resale": use one of`:                     byOwner("resale"),
		`plan is ""`:                                       byOwner(""),
		"org is missing":                                   {Plan: "free"},
		"overrides has 16385 bytes":                        byOperator(billing.Free, strings.Repeat(" ", MaxOverrides+1)),
		`unknown field "tea"`:                              byOperator(billing.Free, `{"tea":1}`),
		"a discount of 101 percent":                        byOperator(billing.Free, `{"discount_percent":101}`),
		`overrides are not valid: there is no meter "tea"`: byOperator(billing.Free, `{"prices":[{"meter":"tea"}]}`),
		"input_tokens has two prices":                      byOperator(billing.Free, `{"prices":[{"meter":"input_tokens","per":1,"tiers":[{"usd":1}]},{"meter":"input_tokens","per":1,"tiers":[{"usd":1}]}]}`),
		"a fee or a minimum is negative":                   byOperator(billing.Free, `{"minimum_usd":-1}`),
		"meta.principal has a control":                     {Meta: by("\n"), Org: "org_acme", Plan: "free"},
		"tier 1 of input_tokens has a negative":            byOperator(billing.Free, `{"prices":[{"meter":"input_tokens","per":1,"tiers":[{"usd":-1}]}]}`),
	} {
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
	if err := byOperator(billing.Free, strings.Repeat(" ", MaxOverrides-2)+"{}").Validate(); err != nil {
		t.Errorf("overrides of the largest size: %v", err)
	}
}

// A month's usage is that of all namespaces of the organisation, summed over queues, and the cost also by model.
func TestMonthUsage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"), newOrg("other"), newNamespace("org_acme", "a"), newNamespace("org_acme", "gone"), newNamespace("org_other", "b"))
	hour := func(text string) int64 {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return at.UnixNano()
	}
	row := func(at, queue, model string, m billing.Meter, n int64) *UsageRow {
		return &UsageRow{HourNs: hour(at), Queue: queue, Model: model, Provider: "p", Meter: uint32(m), Quantity: n}
	}
	const first, last, before, after = "2026-02-01T00:00:00Z", "2026-02-28T23:00:00Z", "2026-01-31T23:00:00Z", "2026-03-01T00:00:00Z"
	w.ok(frame("ns_a", 1, 1, row(first, "q1", "m1", billing.InputTokens, math.MaxInt64), row(first, "q2", "m2", billing.InputTokens, math.MaxInt64),
		row(last, "q1", "m1", billing.Cost, 5), row(last, "q2", "m1", billing.Cost, 6), row(last, "q1", "m2", billing.Cost, 7),
		row(before, "q1", "m1", billing.InputTokens, 8), row(after, "q1", "m1", billing.InputTokens, 9)))
	w.pass(time.Minute)
	w.ok(frame("ns_gone", 1, 1, row(first, "q1", "m1", billing.OutputTokens, 3)), deletion("gone"), byOwner(billing.PayAsYouGo))
	asOf := w.clockNs
	w.pass(time.Minute)
	w.ok(frame("ns_b", 1, 1, row(first, "q1", "m1", billing.OutputTokens, 4)))
	got, err := w.store().MonthUsage(t.Context(), "org_acme", time.Unix(0, hour(last)))
	if err != nil {
		t.Fatal(err)
	}
	want := []billing.HourUsage{
		{HourNs: hour(first), Namespace: "ns_a", Meter: billing.InputTokens, Quantity: money.CountOf(math.MaxInt64).Add(money.CountOf(math.MaxInt64))},
		{HourNs: hour(first), Namespace: "ns_gone", Meter: billing.OutputTokens, Quantity: money.CountOf(3)},
		{HourNs: hour(last), Namespace: "ns_a", Meter: billing.Cost, Provider: "p", Model: "m1", Quantity: money.CountOf(11)},
		{HourNs: hour(last), Namespace: "ns_a", Meter: billing.Cost, Provider: "p", Model: "m2", Quantity: money.CountOf(7)},
	}
	if !reflect.DeepEqual(got.Usage, want) {
		t.Errorf("the usage is\n%+v, want\n%+v", got.Usage, want)
	}
	if got.AsOfNs != asOf || len(got.History) != 1 || got.History[0].Plan != billing.PayAsYouGo {
		t.Errorf("as of %d, want %d; the plans are %+v", got.AsOfNs, asOf, got.History)
	}
	if _, err := w.store().MonthUsage(t.Context(), "org_none", time.Unix(0, 0)); api.CodeOf(err) != api.NotFound {
		t.Errorf("an unknown organisation: %v", err)
	}
}

func (s *simulation) drawPlan() op {
	o := &SetPlan{Org: s.some("SELECT id FROM orgs ORDER BY id", "org_none"), Plan: string(billing.Plans[s.rng.IntN(len(billing.Plans))]), Operator: s.rng.IntN(3) > 0}
	if o.Operator && s.rng.IntN(2) == 0 {
		o.Overrides = []byte(`{"discount_percent":10}`)
	}
	return o
}
