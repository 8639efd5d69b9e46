package store

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/tenancy"
)

func limited(org string, limit money.Nano) *SetSpendLimit {
	n := int64(limit)
	return &SetSpendLimit{Meta: by("owner"), Org: "org_" + org, LimitNanoUsd: &n}
}

func unlimited(org string) *SetSpendLimit {
	return &SetSpendLimit{Meta: by("owner"), Org: "org_" + org}
}

// spent returns the op by which the reconciler reports a spend of the world's month.
func (w *world) spent(org string, spend money.Nano) *RecordSpend {
	return &RecordSpend{Meta: by("reconciler"), Org: "org_" + org, MonthNs: monthOf(w.clockNs), SpendNanoUsd: int64(spend)}
}

// raised returns a raise by the owner for an hour.
func (w *world) raised(org, id string, amount money.Nano) *RaiseSpendLimit {
	return &RaiseSpendLimit{Meta: by("owner"), Id: id, Org: "org_" + org, AmountNanoUsd: int64(amount), Reason: "a launch", ExpiresNs: w.clockNs + int64(time.Hour)}
}

// raiseOf returns a raise of a thousand nano-dollars until an hour after the start of every test's clock.
func raiseOf(org string) *RaiseSpendLimit {
	return (&world{clockNs: epochNs}).raised(org, "r1", 1000)
}

func (w *world) spendStatus(org string) SpendStatus {
	w.t.Helper()
	s, err := w.store().SpendStatus(w.t.Context(), tenancy.OrgID("org_"+org), time.Unix(0, w.clockNs))
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// wantSpend checks the alerts of the month, such as "50 80", and whether the document of a namespace holds starts.
func (w *world) wantSpend(when, alerts string, held bool) {
	w.t.Helper()
	s := w.spendStatus("acme")
	var got []string
	for _, a := range s.Alerts {
		got = append(got, fmt.Sprint(a.Percent))
	}
	hold := w.doc("ns_a").Hold
	if strings.Join(got, " ") != alerts || (hold == "spend_limit") != held || hold != "" && !held || s.Limit != nil && (s.Limit.HeldNs != 0) != held {
		w.t.Errorf("%s: the alerts are %q, want %q; the document has the hold %q of %+v", when, got, alerts, hold, s.Limit)
	}
}

// Each share of the limit alerts once a month. The hold follows the spend, and reaches the documents of the organisation's
// namespaces only.
func TestSpendIsLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.at("2031-02-10T12:30:00Z")
	w.ok(newOrg("acme"), newOrg("other"), newNamespace("org_acme", "a"), newNamespace("org_acme", "b"), newNamespace("org_other", "c"))
	w.refused(api.NotFound, limited("none", 1))
	w.refused(api.StateConflict, w.spent("acme", 1))
	w.ok(limited("acme", 1000))
	before := w.docs(0)
	w.ok(w.spent("acme", 499))
	w.wantSpend("below", "", false)
	w.ok(w.spent("acme", 500))
	w.wantSpend("half", "50", false)
	w.ok(w.spent("acme", 400), w.spent("acme", 500), w.spent("acme", 999))
	w.wantSpend("almost", "50 80 95", false)
	if after := w.docs(0); len(after) != len(before) || after[len(after)-1].Number != before[len(before)-1].Number {
		t.Error("an alert has changed documents")
	}
	w.ok(w.spent("acme", 1000))
	w.wantSpend("reached", "50 80 95 100", true)
	if fresh := w.docs(before[len(before)-1].Number); len(fresh) != 2 || fresh[0].Namespace != "ns_a" || fresh[1].Namespace != "ns_b" {
		t.Errorf("the hold has renewed the documents %+v", fresh)
	}
	if w.doc("ns_b").Hold != "spend_limit" || w.doc("ns_c").Hold != "" {
		t.Errorf("the holds of the other namespaces are %q and %q", w.doc("ns_b").Hold, w.doc("ns_c").Hold)
	}
	w.reopen()
	number := w.doc("ns_a").Number
	w.ok(w.spent("acme", 1001), w.spent("acme", 1000))
	w.wantSpend("stays", "50 80 95 100", true)
	if w.doc("ns_a").Number != number {
		t.Error("a hold that stays has changed a document")
	}
	w.ok(newNamespace("org_acme", "new"))
	if w.doc("ns_new").Hold != "spend_limit" {
		t.Error("a new namespace of a held organisation starts jobs")
	}
	w.ok(deletion("new"))
	if w.doc("ns_new").Hold != "" {
		t.Error("a namespace that is being deleted has a hold")
	}

	w.ok(w.spent("acme", 999)) // a correction
	w.wantSpend("corrected", "50 80 95 100", false)
	w.ok(w.spent("acme", 1000))
	w.ok(limited("acme", 1001))
	w.wantSpend("a higher limit that no spend was compared with", "50 80 95 100", true)
	w.ok(w.spent("acme", 1000))
	w.wantSpend("a higher limit", "50 80 95 100", false)
	w.ok(w.spent("acme", 1001))
	number = w.doc("ns_a").Number
	w.ok(unlimited("acme"), unlimited("acme"))
	w.wantSpend("no limit", "50 80 95 100", false)
	if w.doc("ns_a").Number <= number {
		t.Error("hosts do not hear of the end of the hold")
	}

	// The next month begins anew.
	w.ok(limited("acme", 1000), w.spent("acme", 1000))
	old := w.spent("acme", 2000)
	w.at("2031-03-01T00:00:00Z")
	w.refused(api.StateConflict, old)
	w.ok(w.spent("acme", 0))
	w.wantSpend("the next month", "", false)
	w.ok(w.spent("acme", 800))
	w.wantSpend("80 percent at once", "50 80", false)

	w.wantSpendAudit("0.000001 2031-02/50% 2031-02/80% 2031-02/95% 2031-02/100% 2031-02/held 2031-02/released 2031-02/held 0.000001001 2031-02/released 2031-02/held none " +
		"0.000001 2031-02/held 2031-03/released 2031-03/50% 2031-03/80%")
}

// wantSpendAudit compares the targets of the organisation's changes of limits and records of spends.
func (w *world) wantSpendAudit(want string) {
	w.t.Helper()
	rows, err := w.store().Audit(w.t.Context(), "org_acme", 0, MaxPage)
	if err != nil {
		w.t.Fatal(err)
	}
	var targets []string
	for _, r := range rows {
		if r.Action == "record-spend" || r.Action == "set-spend-limit" {
			targets = append(targets, strings.TrimPrefix(r.Target, "org_acme/"))
		}
	}
	if got := strings.Join(targets, " "); got != want {
		w.t.Errorf("the audit log has\n%s, want\n%s", got, want)
	}
}

// A raise adds to the limit until it expires. An organisation raises at most by its limit at a time, operators by more.
func TestRaisesOfASpendLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.at("2031-02-10T12:30:00Z")
	w.ok(newOrg("acme"), newNamespace("org_acme", "a"))
	w.refused(api.StateConflict, w.raised("acme", "r0", 1))
	w.ok(limited("acme", 1000), w.spent("acme", 1500))
	w.wantSpend("held", "50 80 95 100", true)
	w.refused(api.Forbidden, w.raised("acme", "r0", 1001))
	first := w.raised("acme", "r1", 600)
	w.ok(first, first)
	other := w.raised("acme", "r1", 601)
	w.refused(api.Conflict, other)
	w.refused(api.Forbidden, w.raised("acme", "r2", 401))
	w.ok(w.raised("acme", "r2", 400), w.spent("acme", 1500))
	w.wantSpend("raised", "50 80 95 100", false)
	w.ok(w.spent("acme", 2000))
	w.wantSpend("the raised limit is reached", "50 80 95 100", true)
	operators := w.raised("acme", "r3", 5000)
	operators.Operator, operators.ExpiresNs = true, w.clockNs+int64(MaxRaisePeriod)
	w.ok(operators, w.spent("acme", 6999))
	w.wantSpend("raised by an operator", "50 80 95 100", false)
	if s := w.spendStatus("acme"); s.Limit.Effective() != 7000 || s.Limit.Own != 1000 || len(s.Raises) != 3 || s.Raises[0].Approver != "owner" || !s.Raises[2].Operator {
		t.Errorf("the status is %+v of %+v", s, s.Limit)
	}
	w.pass(time.Hour)
	w.ok(w.spent("acme", 6000))
	w.wantSpend("two raises have expired", "50 80 95 100", true)
	w.ok(w.raised("acme", "r4", 1000)) // the expired ones do not count
	for _, expires := range []int64{w.clockNs, w.clockNs + int64(MaxRaisePeriod) + 1} {
		late := w.raised("acme", "r5", 1)
		late.ExpiresNs = expires
		w.refused(api.ValidationError, late)
	}

	// A month has at most so many raises.
	w.limits.raises = 5
	w.pass(time.Hour)
	w.ok(w.raised("acme", "r5", 1))
	w.refused(api.Conflict, w.raised("acme", "r6", 1))
	w.at("2031-03-01T00:00:00Z")
	w.ok(w.raised("acme", "r6", 1))
}

// The duty proposes nothing if the spend changes nothing, and Apply then changes nothing.
func TestSpendChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"), newNamespace("org_acme", "a"), limited("acme", 1000))
	for _, spend := range []money.Nano{0, 499, 500, 100, 800, 950, 1000, 1000, 999, 1001, 0, 700} {
		all, err := w.store().SpendLimits(t.Context(), time.Unix(0, w.clockNs))
		if err != nil || len(all) != 1 || all[0].Org != "org_acme" {
			t.Fatalf("the limits are %+v, %v", all, err)
		}
		before := w.dump()
		changes := all[0].Changes(spend)
		w.ok(w.spent("acme", spend))
		if diff := difference(before[1:], w.dump()[1:]); (diff != "") != changes { // the head has moved
			t.Errorf("a spend of %d changes something: %v, but the state: %q", spend, changes, diff)
		}
	}
}

// A document without a hold has the same bytes as before there were holds.
func TestDocumentWithoutAHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"), newNamespace("org_acme", "a"), limited("acme", 1000), w.spent("acme", 999))
	text, err := json.Marshal(w.doc("ns_a"))
	if err != nil || strings.Contains(string(text), "hold") {
		t.Errorf("%s, %v", text, err)
	}
}

func TestSpendLimitValidate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	raise := func(change func(*RaiseSpendLimit)) op { o := w.raised("acme", "r1", 1); change(o); return o }
	for says, o := range map[string]op{
		"limit_usd is 0: ":                         limited("acme", 0),
		"limit_usd is -1: ":                        limited("acme", -money.Dollar),
		"limit_usd is 1000000.000000001: ":         limited("acme", MaxSpendLimit+1),
		"org is missing":                           &SetSpendLimit{Meta: by("owner")},
		"id is missing":                            raise(func(o *RaiseSpendLimit) { o.Id = "" }),
		"amount_usd is 0: ":                        raise(func(o *RaiseSpendLimit) { o.AmountNanoUsd = 0 }),
		"amount_usd is 1000000.000000001: it is a": raise(func(o *RaiseSpendLimit) { o.AmountNanoUsd = int64(MaxSpendLimit) + 1 }),
		"reason":     raise(func(o *RaiseSpendLimit) { o.Reason = strings.Repeat("a", MaxReason+1) }),
		"expires_at": raise(func(o *RaiseSpendLimit) { o.ExpiresNs = 0 }),
		"month_ns":   &RecordSpend{Meta: by("reconciler"), Org: "org_acme"},
	} {
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
	for _, o := range []op{limited("acme", MaxSpendLimit), limited("acme", 1), raise(func(o *RaiseSpendLimit) {
		o.AmountNanoUsd, o.Reason = int64(MaxSpendLimit), strings.Repeat("a", MaxReason)
	})} {
		if err := o.Validate(); err != nil {
			t.Error(err)
		}
	}
}

// drawSpend draws the ops of spend limits, with few amounts so that spends meet limits.
func (s *simulation) drawSpend() op {
	org, amount := s.some("SELECT id FROM orgs ORDER BY id", "org_none"), 1+s.rng.Int64N(4)
	switch s.rng.IntN(6) {
	case 0:
		return &SetSpendLimit{Org: org}
	case 1:
		return &SetSpendLimit{Org: org, LimitNanoUsd: &amount}
	case 2:
		return &RaiseSpendLimit{Id: s.mint("raise_"), Org: org, AmountNanoUsd: amount, Reason: "drawn", ExpiresNs: s.clockNs + s.rng.Int64N(int64(time.Hour)), Operator: s.rng.IntN(3) == 0}
	}
	return &RecordSpend{Org: org, MonthNs: monthOf(s.clockNs), SpendNanoUsd: s.rng.Int64N(8)}
}
