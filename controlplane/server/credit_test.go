package server

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// TestCredits grants, approves and revokes credits. The organisation's billing readers see them.
func TestCredits(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	second := f.credential(keyring.CloudOperator, "", tenancy.CloudOperator)
	ops, tenant := f.cloud(f.operator), f.cloud(admin)
	ctx := t.Context()
	small, err := ops.GrantCredit(ctx, "acme", api.GrantCreditRequest{AmountUSD: 25_500_000_000, Reason: "for the outage", ExpiresAt: api.TimeOf(f.now().Add(time.Hour))})
	if err != nil || small.Status != api.CreditActive || small.RestUSD != small.AmountUSD || small.ExpiresAt == nil || small.ApprovedBy != "" || small.Org != f.acme() || small.Currency != "USD" {
		t.Fatalf("%+v: %v", small, err)
	}
	large, err := ops.GrantCredit(ctx, f.acme(), api.GrantCreditRequest{AmountUSD: 1_000_000_000_000, Currency: "USD", Reason: "a pilot"})
	if err != nil || large.Status != api.CreditPending || large.RestUSD != 0 || large.GrantedAt != nil {
		t.Fatalf("%+v: %v", large, err)
	}
	if _, err := ops.ApproveCredit(ctx, "acme", large.ID); api.CodeOf(err) != api.Forbidden {
		t.Errorf("the same operator approves: %v", err)
	}
	late := f.cloud(f.credential(keyring.CloudOperator, "", tenancy.CloudOperator))
	if _, err := late.ApproveCredit(ctx, "acme", large.ID); api.CodeOf(err) != api.Forbidden {
		t.Errorf("a later key approves: %v", err)
	}
	if large, err = f.cloud(second).ApproveCredit(ctx, "acme", large.ID); err != nil || large.Status != api.CreditActive || large.ApprovedBy == "" || large.ApprovedBy == large.GrantedBy {
		t.Fatalf("%+v: %v", large, err)
	}
	seen, err := tenant.Credits(ctx, "acme")
	if err != nil || len(seen) != 2 || seen[0].ID != small.ID || seen[1].RestUSD != large.AmountUSD {
		t.Errorf("the organisation sees %+v: %v", seen, err)
	}
	if large, err = ops.RevokeCredit(ctx, "acme", large.ID, api.RevokeCreditRequest{Reason: "the pilot is over"}); err != nil || large.Status != api.CreditRevoked || large.RestUSD != 0 || large.EndedAt == nil {
		t.Errorf("%+v: %v", large, err)
	}
	if _, err := ops.RevokeCredit(ctx, "acme", large.ID, api.RevokeCreditRequest{Reason: "again"}); api.CodeOf(err) != api.StateConflict {
		t.Errorf("a second revocation: %v", err)
	}
	if one, err := tenant.Credit(ctx, "acme", large.ID); err != nil || one.Status != api.CreditRevoked {
		t.Errorf("%+v: %v", one, err)
	}
	l, err := ops.Ledger(ctx)
	if err != nil || l.Transactions != 3 || len(l.Hash) != 64 || l.ClosedUntil != nil || l.Accounts[3].Name != "credits_outstanding" || l.Accounts[3].BalanceUSD.String() != "-25.5" {
		t.Errorf("the ledger is %+v: %v", l, err)
	}
}

// Only operators change credits and see the ledger, and nobody sees credits of another organisation.
func TestCreditsAreGuarded(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	f.org("other")
	made, err := f.cloud(f.operator).GrantCredit(t.Context(), "acme", api.GrantCreditRequest{AmountUSD: 1, Reason: "x"})
	if err != nil {
		t.Fatal(err)
	}
	reader := f.credential(keyring.Org, f.acme(), tenancy.ReadOnly)
	const credits = cloud + "/orgs/acme/credits"
	for _, c := range []struct {
		method, path, key, body string
		want                    api.Code
	}{
		{"POST", credits, admin, `{"amount_usd":1,"reason":"x"}`, api.Forbidden},
		{"POST", credits + "/" + made.ID + "/approve", admin, "", api.Forbidden},
		{"POST", credits + "/" + made.ID + "/revoke", admin, `{"reason":"x"}`, api.Forbidden},
		{"GET", credits, reader, "", api.Forbidden},
		{"GET", cloud + "/orgs/other/credits", admin, "", api.NotFound},
		{"GET", cloud + "/orgs/other/credits/" + made.ID, f.operator, "", api.NotFound},
		{"POST", cloud + "/orgs/other/credits/" + made.ID + "/revoke", f.operator, `{"reason":"x"}`, api.NotFound},
		{"POST", cloud + "/orgs/none/credits", f.operator, `{"amount_usd":1,"reason":"x"}`, api.NotFound},
		{"POST", credits + "/cr_none/approve", f.operator, "", api.NotFound},
		{"GET", cloud + "/ledger", admin, "", api.Forbidden},
		{"POST", cloud + "/ledger/close", admin, `{"month":"2026-01"}`, api.Forbidden},
	} {
		if a := f.send(c.method, c.path, c.key, c.body); a.problem(t).Code != c.want {
			t.Errorf("%s %s: %d %s, want %s", c.method, c.path, a.status, a.body, c.want)
		}
	}
}

// Amounts that are no dollars, and values out of bounds, are refused by the name of their field.
func TestBadCreditsAreRefused(t *testing.T) {
	t.Parallel()
	f, _ := start(t)
	const credits = cloud + "/orgs/acme/credits"
	for body, want := range map[string]string{
		`{"amount_usd":-1,"reason":"x"}`:                                               "amount_usd",
		`{"amount_usd":0,"reason":"x"}`:                                                "amount_usd",
		`{"reason":"x"}`:                                                               "amount_usd",
		`{"amount_usd":1000000.000000001,"reason":"x"}`:                                "amount_usd",
		`{"amount_usd":1e300,"reason":"x"}`:                                            "amount",
		`{"amount_usd":0.0000000001,"reason":"x"}`:                                     "decimals",
		`{"amount_usd":NaN,"reason":"x"}`:                                              "",
		`{"amount_usd":"NaN","reason":"x"}`:                                            "amount_usd",
		`{"amount_usd":1}`:                                                             "reason",
		`{"amount_usd":1,"reason":"` + strings.Repeat("x", 257) + `"}`:                 "reason",
		`{"amount_usd":1,"reason":"x","currency":"EUR"}`:                               "currency",
		`{"amount_usd":1,"reason":"x","expires_at":"yesterday"}`:                       "expires_at",
		`{"amount_usd":1,"reason":"x","expires_at":"2020-01-01T00:00:00Z"}`:            "expires_at",
		`{"amount_usd":1,"reason":"x","expires_at":"9999-01-01T00:00:00Z"}`:            "expires_at",
		`{"amount_usd":1,"reason":"x","expires_at":"2026-01-01T00:00:00Z","to":"you"}`: "to",
	} {
		a := f.send("POST", credits, f.operator, body)
		if p := a.problem(t); a.status != http.StatusBadRequest || !strings.Contains(p.Error, want) {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	for _, month := range []string{"", "2026", "2026-13", "2026-1", "1999-12", "2201-01", "2026-01-01"} {
		a := f.send("POST", cloud+"/ledger/close", f.operator, `{"month":"`+month+`"}`)
		if p := a.problem(t); p.Code != api.ValidationError || !strings.HasPrefix(p.Error, "month") {
			t.Errorf("month %s: %d %s", month, a.status, a.body)
		}
	}
	if l, err := f.cloud(f.operator).Ledger(t.Context()); err != nil || l.Transactions != 0 {
		t.Errorf("the ledger is %+v: %v", l, err)
	}
}

// TestCloseAMonth closes the month before the present one, once. Of two operators who close it at once, one is refused.
func TestCloseAMonth(t *testing.T) {
	t.Parallel()
	f, _ := start(t)
	ops := f.cloud(f.operator)
	now := f.now().UTC()
	begin := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	if _, err := ops.CloseMonth(t.Context(), now.Format("2006-01")); api.CodeOf(err) != api.StateConflict {
		t.Errorf("the present month: %v", err)
	}
	before := begin.AddDate(0, -1, 0).Format("2006-01")
	closed := make(chan error)
	for range 2 {
		go func() {
			_, err := ops.CloseMonth(t.Context(), before)
			closed <- err
		}()
	}
	one, other := <-closed, <-closed
	if (one == nil) == (other == nil) || one != nil && api.CodeOf(one) != api.StateConflict || other != nil && api.CodeOf(other) != api.StateConflict {
		t.Errorf("two closers: %v and %v", one, other)
	}
	l, err := ops.Ledger(t.Context())
	if err != nil || l.Transactions != 1 || l.ClosedUntil == nil || *l.ClosedUntil != api.TimeOf(begin) {
		t.Errorf("the ledger is %+v: %v", l, err)
	}
}
