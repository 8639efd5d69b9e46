package server

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// correcting proposes to take 300,000 output tokens away.
func correcting() api.ProposeCorrectionRequest {
	return api.ProposeCorrectionRequest{Namespace: "prod", Meter: "output_tokens", Hour: "2031-02-10T13:00:00Z", Queue: "mail", Quantity: -300_000, Reason: "reported twice"}
}

// wantTokens checks the output tokens of acme, and the part of them that corrections changed.
func (f *front) wantTokens(c *client.Cloud, total, corrected string) {
	f.t.Helper()
	u, err := c.Usage(f.t.Context(), "acme", client.UsageQuery{GroupBy: "queue"})
	if err != nil || len(u.Groups) != 1 || u.Groups[0].Key != "mail" || u.Groups[0].OutputTokens != u.Totals.OutputTokens {
		f.t.Fatalf("%+v, %v", u, err)
	}
	if u.Totals.OutputTokens.String() != total || u.Corrected.OutputTokens.String() != corrected {
		f.t.Errorf("used %s, corrected by %s; want %s and %s", u.Totals.OutputTokens, u.Corrected.OutputTokens, total, corrected)
	}
}

// wantTokenLines checks the lines of output tokens in the preview of acme's bill.
func (f *front) wantTokenLines(c *client.Cloud, want string) {
	f.t.Helper()
	p, err := c.InvoicePreview(f.t.Context(), "acme")
	if err != nil {
		f.t.Fatal(err)
	}
	var of []string
	for _, l := range p.Lines {
		if l.Meter == "output_tokens" {
			of = append(of, l.Quantity.String()+" for "+l.Amount)
		}
	}
	if got := strings.Join(of, ", "); got != want {
		f.t.Errorf("the bill has %s, want %s", got, want)
	}
}

// TestCorrections proposes, approves and rejects corrections by two operators. The bill falls by exactly the price of the
// corrected quantity, and the usage says how much of it was corrected.
func TestCorrections(t *testing.T) {
	t.Parallel()
	f, admin := startHour(t, "2031-02-10T13:30:00Z")
	prod := f.namespace("acme", "prod")
	if a := f.send("PUT", cloud+"/orgs/acme/plan", admin, `{"plan":"payg"}`); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	f.ahead.Add(int64(30 * time.Minute)) // the plan begins
	f.use(prod, "2031-02-10T13:00:00Z", 1, used(billing.OutputTokens, 1))
	f.use(prod, "2031-02-10T14:00:00Z", 2, used(billing.OutputTokens, 2_500_000))
	first, second := f.cloud(f.operator), f.cloud(f.credential(keyring.CloudOperator, "", tenancy.CloudOperator))
	tenant := f.cloud(admin)
	ctx := t.Context()
	req := correcting()
	req.Hour = "2031-02-10T14:00:00Z"
	f.wantTokenLines(tenant, "1 for 0, 999999 for 0, 1500001 for 0.03000002")
	made, err := first.ProposeCorrection(ctx, "acme", req)
	if err != nil || made.Status != api.CorrectionPending || made.Namespace != prod || made.Org != f.acme() || made.Meter != "output_tokens" || made.Hour != req.Hour || made.Quantity != -300_000 || made.ProposedBy == "" {
		t.Fatalf("%+v: %v", made, err)
	}
	f.wantTokenLines(tenant, "1 for 0, 999999 for 0, 1500001 for 0.03000002")
	if _, err := first.ApproveCorrection(ctx, "acme", made.ID); api.CodeOf(err) != api.Forbidden {
		t.Errorf("the same operator approves: %v", err)
	}
	late := f.cloud(f.credential(keyring.CloudOperator, "", tenancy.CloudOperator))
	if _, err := late.ApproveCorrection(ctx, "acme", made.ID); api.CodeOf(err) != api.Forbidden {
		t.Errorf("a later key approves: %v", err)
	}
	if made, err = second.ApproveCorrection(ctx, "acme", made.ID); err != nil || made.Status != api.CorrectionApplied || made.ApprovedBy == "" || made.ApprovedBy == made.ProposedBy || made.AppliedAt == nil {
		t.Fatalf("%+v: %v", made, err)
	}
	f.wantTokenLines(tenant, "1 for 0, 999999 for 0, 1200001 for 0.02400002") // 300,000 tokens at 0.02 per million are 0.006
	f.wantTokens(tenant, "2200001", "-300000")

	req.Quantity = -2_200_001
	if _, err := first.ProposeCorrection(ctx, "acme", req); api.CodeOf(err) != api.StateConflict || !strings.Contains(err.Error(), "is 2200000: a correction of -2200001") {
		t.Errorf("below zero: %v", err)
	}
	req.Quantity = -2_200_000
	other, err := first.ProposeCorrection(ctx, "acme", req)
	if err != nil {
		t.Fatal(err)
	}
	if other, err = first.RejectCorrection(ctx, "acme", other.ID, api.RejectCorrectionRequest{Reason: "a mistake"}); err != nil || other.Status != api.CorrectionRejected || other.RejectedBy == "" || other.Rejection != "a mistake" || other.RejectedAt == nil || other.AppliedAt != nil {
		t.Errorf("%+v: %v", other, err)
	}
	for id, want := range map[string]api.Code{other.ID: api.NotFound, made.ID: api.NotFound, "uc_none": api.NotFound} {
		if _, err := second.ApproveCorrection(ctx, "acme", id); api.CodeOf(err) != want {
			t.Errorf("approved %s: %v", id, err)
		}
	}
	all, err := tenant.Corrections(ctx, "acme")
	if err != nil || len(all) != 2 || all[0].ID != made.ID || all[1].Status != api.CorrectionRejected {
		t.Errorf("the organisation sees %+v: %v", all, err)
	}
	if one, err := tenant.Correction(ctx, "acme", made.ID); err != nil || one.ID != made.ID || one.Status != api.CorrectionApplied {
		t.Errorf("%+v: %v", one, err)
	}
}

// Only operators change corrections, and nobody sees those of another organisation.
func TestCorrectionsAreGuarded(t *testing.T) {
	t.Parallel()
	f, admin := startHour(t, "2031-02-10T13:30:00Z")
	f.org("other")
	prod, foreign := f.namespace("acme", "prod"), f.namespace("other", "theirs")
	f.use(prod, "2031-02-10T13:00:00Z", 1, used(billing.OutputTokens, 300_000))
	made, err := f.cloud(f.operator).ProposeCorrection(t.Context(), "acme", correcting())
	if err != nil {
		t.Fatal(err)
	}
	reader := f.credential(keyring.Org, f.acme(), tenancy.ReadOnly)
	const path, others = cloud + "/orgs/acme/usage/corrections", cloud + "/orgs/other/usage/corrections"
	body := func(namespace string) string {
		return `{"namespace":"` + namespace + `","meter":"output_tokens","hour":"2031-02-10T13:00:00Z","queue":"mail","quantity":-1,"reason":"x"}`
	}
	for _, c := range []struct {
		method, path, key, body string
		want                    api.Code
	}{
		{"POST", path, admin, body("prod"), api.Forbidden},
		{"POST", path + "/" + made.ID + "/approve", admin, "", api.Forbidden},
		{"POST", path + "/" + made.ID + "/reject", admin, `{"reason":"x"}`, api.Forbidden},
		{"GET", path, reader, "", api.Forbidden},
		{"GET", others, admin, "", api.NotFound},
		{"GET", others + "/" + made.ID, f.operator, "", api.NotFound},
		{"POST", others + "/" + made.ID + "/reject", f.operator, `{"reason":"x"}`, api.NotFound},
		{"POST", others, f.operator, body("prod"), api.NotFound},
		{"POST", others, f.operator, body(prod), api.NotFound},
		{"POST", path, f.operator, body(foreign), api.NotFound},
		{"POST", cloud + "/orgs/none/usage/corrections", f.operator, body("prod"), api.NotFound},
	} {
		if a := f.send(c.method, c.path, c.key, c.body); a.problem(t).Code != c.want {
			t.Errorf("%s %s: %d %s, want %s", c.method, c.path, a.status, a.body, c.want)
		}
	}
}

// Values out of bounds are refused by the name of their field.
func TestBadCorrectionsAreRefused(t *testing.T) {
	t.Parallel()
	f, _ := startHour(t, "2031-02-10T13:30:00Z")
	prod := f.namespace("acme", "prod")
	f.use(prod, "2031-02-10T13:00:00Z", 1, used(billing.OutputTokens, 300_000))
	const whole = `{"namespace":"prod","meter":"output_tokens","hour":"2031-02-10T13:00:00Z","queue":"mail","quantity":-1,"reason":"x"}`
	for _, c := range []struct{ old, new, want string }{
		{`"output_tokens"`, `"coffee"`, "meter"},
		{`"output_tokens"`, `""`, "meter"},
		{`T13:00:00Z`, `T13:00:01Z`, "hour"},
		{`T13:00:00Z`, `T14:00:00Z`, "hour"},
		{`2031-02-10T13:00:00Z`, `1600-01-01T00:00:00Z`, "hour"},
		{`2031-02-10T13:00:00Z`, `2500-01-01T00:00:00Z`, "hour"},
		{`2031-02-10T13:00:00Z`, ``, "hour"},
		{`2031-02-10T13:00:00Z`, `yesterday`, "hour"},
		{`:-1`, `:0`, "quantity"},
		{`:-1`, `:-9223372036854775808`, "quantity"},
		{`:-1`, `:9223372036854775808`, "quantity"},
		{`:-1`, `:0.5`, "quantity"},
		{`:-1`, `:"1"`, "quantity"},
		{`:-1`, `:NaN`, ""},
		{`"x"`, `""`, "reason"},
		{`"x"`, `"` + strings.Repeat("x", 513) + `"`, "reason"},
		{`"mail"`, `"` + strings.Repeat("x", 129) + `"`, "queue"},
		{`"queue"`, `"tube"`, "tube"},
	} {
		a := f.send("POST", cloud+"/orgs/acme/usage/corrections", f.operator, strings.Replace(whole, c.old, c.new, 1))
		if p := a.problem(t); a.status != http.StatusBadRequest || !strings.Contains(p.Error, c.want) {
			t.Errorf("%s: %d %s", c.new, a.status, a.body)
		}
	}
	if a := f.send("POST", cloud+"/orgs/acme/usage/corrections", f.operator, whole); a.status != http.StatusCreated {
		t.Errorf("%d %s", a.status, a.body)
	}
	if all, err := f.cloud(f.operator).Corrections(t.Context(), "acme"); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}
