package store

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/tenancy/keyring"
)

// correcting proposes to change the output tokens of the queue q and the model m in the first hour of namespace a.
func correcting(id string, quantity int64) *ProposeCorrection {
	return &ProposeCorrection{Meta: by("op"), Id: id, Org: "org_acme", Namespace: "ns_a", HourNs: hourNs, Queue: "q", Model: "m", Provider: "p", Meter: uint32(billing.OutputTokens), Quantity: quantity, Reason: "a double report"}
}

func approvingCorrection(principal, id string) *ApproveRequest {
	return ApproveCorrection(by(principal), id)
}

func rejecting(principal, id string) *RejectCorrection {
	return &RejectCorrection{Meta: by(principal), Id: id, Reason: "not proven"}
}

// correctionWorld has usage of 3 output tokens in the first hour of namespace a, and the keys of two operators.
func correctionWorld(t *testing.T) *world {
	w := usageWorld(t)
	w.ok(newKey(keyring.CloudOperator, "", "op"), newKey(keyring.CloudOperator, "", "op2"), newKey(keyring.Org, "org_acme", "tenant"), frame("ns_a", 1, 1, usageRow("q", "m", 1)))
	w.pass(time.Hour)
	return w
}

// wantTokens checks the output tokens of an organisation, and what corrections added to them.
func (w *world) wantTokens(total, corrected string) {
	w.t.Helper()
	sums, err := w.store().Usage(w.t.Context(), always("org_acme"))
	if err != nil {
		w.t.Fatal(err)
	}
	if got := sums.Total[billing.OutputTokens].String(); got != total {
		w.t.Errorf("used %s, want %s", got, total)
	}
	if got := sums.Corrected[billing.OutputTokens].String(); got != corrected {
		w.t.Errorf("corrected by %s, want %s", got, corrected)
	}
	checkProjection(w.t, w.machine)
}

// A correction changes the sums of its hour when a second operator approves it, once, and is a row of the journal.
func TestCorrectionsNeedASecondPerson(t *testing.T) {
	t.Parallel()
	w := correctionWorld(t)
	w.ok(correcting("u1", -2), correcting("u1", -2)) // a repeat
	for _, other := range []*ProposeCorrection{correcting("u1", -1), {Meta: by("op2"), Id: "u1", Org: "org_acme", Namespace: "ns_a", HourNs: hourNs, Queue: "q", Model: "m", Provider: "p", Meter: uint32(billing.OutputTokens), Quantity: -2, Reason: "a double report"}} {
		w.refused(api.Conflict, other)
	}
	w.wantTokens("3", "0")
	for _, principal := range []string{"op", "tenant", "nobody"} {
		w.refused(api.Forbidden, approvingCorrection(principal, "u1"))
	}
	w.ok(newKey(keyring.CloudOperator, "", "op3"))
	w.refused(api.Forbidden, approvingCorrection("op3", "u1"))
	w.refused(api.NotFound, ApproveCredit(by("op2"), "u1"))
	w.pass(time.Minute)
	w.ok(approvingCorrection("op2", "u1"))
	w.wantTokens("1", "-2")
	w.refused(api.NotFound, approvingCorrection("op2", "u1"))
	w.refused(api.NotFound, approvingCorrection("op2", "u9"))
	w.refused(api.StateConflict, rejecting("op", "u1"))
	w.ok(correcting("u1", -2)) // a late repeat
	w.wantTokens("1", "-2")

	got := ask(w, func(r reader) ([]string, error) {
		return list(r, scalar[string], "SELECT stream || ' ' || quantity || ' ' || queue FROM usage_journal WHERE meter = 4 ORDER BY 1")
	})
	if want := []string{"correction/u1 -2 q", "shard/0 3 q"}; !slices.Equal(got, want) {
		t.Errorf("the journal has %q, want %q", got, want)
	}
	sums, err := w.store().Usage(t.Context(), always("org_acme"))
	if err != nil || sums.AsOfNs != w.clockNs {
		t.Errorf("as of %d, want the approval at %d: %v", sums.AsOfNs, w.clockNs, err)
	}
	c, err := w.store().Correction(t.Context(), "org_acme", "u1")
	if err != nil || c.Status != CorrectionApplied || c.Principal != "op" || c.Decider != "op2" || c.DecidedNs != w.clockNs {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := w.store().Correction(t.Context(), "org_other", "u1"); refused(err, api.NotFound) != nil {
		t.Errorf("the correction of another organisation: %v", err)
	}
	for _, text := range []string{"UPDATE usage_corrections SET quantity = 1", "DELETE FROM usage_corrections"} {
		if _, err := w.db.exec(text); err == nil {
			t.Errorf("%s was done", text)
		}
	}
}

// Each operator may reject a correction that waits, also his own. It then changes nothing for ever.
func TestCorrectionsAreRejected(t *testing.T) {
	t.Parallel()
	w := correctionWorld(t)
	w.limits.corrections = 2
	w.ok(correcting("u1", 5), correcting("u2", 5))
	w.refused(api.Conflict, correcting("u3", 5))
	other := correcting("u4", 5)
	other.Org, other.Namespace = "org_other", "ns_x"
	w.ok(other, rejecting("op", "u1"), correcting("u3", 5), rejecting("op2", "u2"), approvingCorrection("op2", "u3"))
	for _, principal := range []string{"op", "op2"} {
		w.refused(api.StateConflict, rejecting(principal, "u1"))
	}
	w.refused(api.NotFound, approvingCorrection("op2", "u1"))
	w.refused(api.NotFound, rejecting("op", "u9"))
	w.wantTokens("8", "5")
	all, err := w.store().Corrections(t.Context(), "org_acme", "u1", MaxPage)
	if err != nil || len(all) != 2 || all[0].Status != CorrectionRejected || all[0].Decider != "op2" || all[0].Rejection != "not proven" || all[1].Status != CorrectionApplied {
		t.Errorf("%+v, %v", all, err)
	}
}

// A sum of an hour falls to zero and no further, also if usage was corrected between the proposal and the approval. The
// refusal names the sum of exactly this hour, meter, queue, model and provider.
func TestUsageNeverFallsBelowZero(t *testing.T) {
	t.Parallel()
	w := correctionWorld(t)
	w.ok(frame("ns_a", 2, 2, usageRow("q2", "m", 1)), frame("ns_b", 1, 1, usageRow("q", "m", 1)))
	if e := w.refused(api.StateConflict, correcting("u1", -4)); !strings.Contains(e.Message, "is 3: a correction of -4") || fmt.Sprint(e.Details["total"]) != "3" {
		t.Errorf("%v, %v", e, e.Details)
	}
	w.ok(correcting("u1", -3), correcting("u2", -1), approvingCorrection("op2", "u1"))
	w.wantTokens("6", "-3")
	if e := w.refused(api.StateConflict, approvingCorrection("op2", "u2")); fmt.Sprint(e.Details["total"]) != "0" {
		t.Errorf("%v, %v", e, e.Details)
	}
	w.ok(frame("ns_a", 3, 3, usageRow("q", "m", 1)), approvingCorrection("op2", "u2")) // it still waited
	w.wantTokens("8", "-4")
	for field, change := range map[string]func(*ProposeCorrection){
		"queue":    func(o *ProposeCorrection) { o.Queue = "q3" },
		"model":    func(o *ProposeCorrection) { o.Model = "" },
		"provider": func(o *ProposeCorrection) { o.Provider = "" },
		"meter":    func(o *ProposeCorrection) { o.Meter = uint32(billing.JobsEnqueued) },
		"hour":     func(o *ProposeCorrection) { o.HourNs -= int64(time.Hour) },
	} {
		o := correcting("u3", -1)
		change(o)
		if e := w.refused(api.StateConflict, o); fmt.Sprint(e.Details["total"]) != "0" {
			t.Errorf("another %s: %v", field, e)
		}
	}
}

// Corrections of the largest quantities are exact in both directions, and the totals have more than 63 bits.
func TestLargeCorrectionsAreExact(t *testing.T) {
	t.Parallel()
	w := correctionWorld(t)
	want, id := money.CountOf(3), 0
	for _, quantity := range []int64{math.MaxInt64, math.MaxInt64, math.MaxInt64, -math.MaxInt64, -math.MaxInt64, -math.MaxInt64, math.MaxInt64, -math.MaxInt64, -3} {
		id++
		name := fmt.Sprint("u", id)
		w.ok(correcting(name, quantity), approvingCorrection("op2", name))
		want = want.Add(money.CountOf(quantity))
		w.wantTokens(want.String(), want.Minus(money.CountOf(3)).String())
	}
	w.wantTokens("0", "-3")
	w.refused(api.StateConflict, correcting("u99", -math.MaxInt64))
}

// Only hours that have begun are corrected, those of closed months and of deleted namespaces too.
func TestWhatIsCorrected(t *testing.T) {
	t.Parallel()
	w := correctionWorld(t)
	ahead := correcting("u1", 1)
	ahead.HourNs = w.clockNs/int64(time.Hour)*int64(time.Hour) + int64(time.Hour)
	w.refused(api.ValidationError, ahead)
	w.clockNs = ahead.HourNs
	w.ok(ahead)
	unknown := correcting("u2", 1)
	for _, namespace := range []string{"ns_none", "ns_x"} {
		unknown.Namespace = namespace
		w.refused(api.NotFound, unknown)
	}
	w.ok(deletion("a"), removal("a"), correcting("u3", 1), approvingCorrection("op2", "u3"))
	w.wantTokens("4", "1")

	last := correcting("u4", 1) // the last hour of the month
	w.passTo("2023-12-01")
	last.HourNs = w.clockNs - int64(time.Hour)
	w.ok(last, closing("2023-11"), approvingCorrection("op2", "u4"))
	w.wantTokens("5", "2")
}

// Fields out of their bounds are refused before they are in the log.
func TestCorrectionsAreValidated(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", MaxCorrectionReason+1)
	for field, change := range map[string]func(*ProposeCorrection){
		"quantity is 0":                   func(o *ProposeCorrection) { o.Quantity = 0 },
		"quantity is -922337203685477580": func(o *ProposeCorrection) { o.Quantity = math.MinInt64 },
		"hour is not a whole hour":        func(o *ProposeCorrection) { o.HourNs++ },
		"hour is not":                     func(o *ProposeCorrection) { o.HourNs = -int64(time.Hour) },
		"meter is 0":                      func(o *ProposeCorrection) { o.Meter = 0 },
		"meter is 16":                     func(o *ProposeCorrection) { o.Meter = uint32(len(billing.Meters)) },
		"queue has 129 bytes":             func(o *ProposeCorrection) { o.Queue = long[:MaxUsageWord+1] },
		"model has 129 bytes":             func(o *ProposeCorrection) { o.Model = long[:MaxUsageWord+1] },
		"provider has 129 bytes":          func(o *ProposeCorrection) { o.Provider = long[:MaxUsageWord+1] },
		"reason is missing":               func(o *ProposeCorrection) { o.Reason = "" },
		"reason has 513 bytes":            func(o *ProposeCorrection) { o.Reason = long },
		"reason has a control character":  func(o *ProposeCorrection) { o.Reason = "a\nb" },
		"namespace is missing":            func(o *ProposeCorrection) { o.Namespace = "" },
		"id is missing":                   func(o *ProposeCorrection) { o.Id = "" },
	} {
		o := correcting("u1", -math.MaxInt64)
		o.Reason, o.Queue, o.Meter = long[1:], long[:MaxUsageWord], uint32(len(billing.Meters)-1)
		if err := o.Validate(); err != nil {
			t.Fatal(err)
		}
		change(o)
		if err := o.Validate(); refused(err, api.ValidationError) != nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v, want %s", err, field)
		}
	}
	for _, o := range []*RejectCorrection{{Id: "u1"}, {Reason: "x"}, {Id: "u1", Reason: long}} {
		if err := o.Validate(); refused(err, api.ValidationError) != nil {
			t.Errorf("%v: %v", o, err)
		}
	}
}

// drawCorrection draws a step of a correction.
func (s *simulation) drawCorrection(n fleet.Namespace) op {
	id := s.some("SELECT id FROM usage_corrections WHERE status = 'pending' ORDER BY id", "uc_none")
	switch s.rng.IntN(7) {
	case 0, 1, 2:
		o := correcting(s.mint("uc_"), s.rng.Int64N(12)-6)
		if o.Quantity == 0 {
			o.Quantity = math.MaxInt64 - s.rng.Int64N(2)*2*math.MaxInt64
		}
		o.Org, o.Namespace = cmp.Or(string(n.Org), "org_none"), string(n.ID)
		o.Queue, o.Model = fmt.Sprint("q", s.rng.IntN(2)), fmt.Sprint("m", s.rng.IntN(2))
		o.HourNs += (s.rng.Int64N(4) - 1) * int64(time.Hour)
		if s.rng.IntN(6) == 0 {
			o.HourNs -= int64(30 * 24 * time.Hour) // of a month that may be closed
		}
		return o
	case 3:
		return &RejectCorrection{Id: id, Reason: "drawn"}
	}
	return ApproveCorrection(nil, id)
}

// A correction of a month that has an invoice is on the next invoice, at the price of its hour.
func TestCorrectionsOfAnInvoicedMonthAreLate(t *testing.T) {
	t.Parallel()
	w := invoiceWorld(t)
	used := egress(1, w.clockNs, 110*gigabyte)
	w.ok(newKey(keyring.CloudOperator, "", "op"), newKey(keyring.CloudOperator, "", "op2"), used)
	w.goTo(december + int64(billing.CloseGrace))
	wantInvoice(t, w.invoiced("org_a"), "response_bytes ns_x tier 0 of 2023-11: 10000000000 = 0", "response_bytes ns_x tier 1 of 2023-11: 100000000000 = 9",
		"INV-000001 finalised: subtotal 9 with rounding 0, credits 0, carried 0, total 9")
	o := &ProposeCorrection{Meta: by("op"), Id: "u1", Org: "org_a", Namespace: "ns_x", HourNs: used.Rows[0].HourNs, Queue: "q", Meter: uint32(billing.ResponseBytes), Quantity: -10 * gigabyte, Reason: "counted twice"}
	w.ok(o, approvingCorrection("op2", "u1"))
	w.goTo(january + int64(billing.CloseGrace))
	wantInvoice(t, w.invoiced("org_a"), "response_bytes ns_x tier 1 of 2023-11: -10000000000 = -0.9",
		"INV-000002 paid: subtotal -0.9 with rounding 0, credits 0, carried -0.9, total 0")
	w.verified()
}
