package store

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/tenancy/keyring"
)

func credited(org, id string, amount money.Nano) *GrantCredit {
	return &GrantCredit{Meta: by("op"), Id: id, Org: "org_" + org, Currency: billing.USD, Amount: int64(amount), Reason: "for the outage"}
}

func approving(principal, id string) *ApproveRequest {
	return &ApproveRequest{Meta: by(principal), Kind: approvalCredit, Id: id}
}

func revoked(id string) *RevokeCredit {
	return &RevokeCredit{Meta: by("op"), Id: id, Reason: "a mistake"}
}

func (w *world) credit(id string) Credit {
	w.t.Helper()
	return ask(w, func(r reader) (Credit, error) { return credit(r, id) })
}

// wantCredit checks the status and the rest of a credit.
func (w *world) wantCredit(id, status, rest string) {
	w.t.Helper()
	if c := w.credit(id); c.Status != status || c.Rest.String() != rest || (c.EndedNs != 0) != (status != CreditActive && status != CreditPending) {
		w.t.Errorf("credit %s is %+v, want %s with a rest of %s", id, c, status, rest)
	}
}

// creditWorld has two organisations and the keys of three operators.
func creditWorld(t *testing.T) *world {
	w := newWorld(t)
	w.ok(newOrg("a"), newOrg("b"), newKey(keyring.CloudOperator, "", "op"), newKey(keyring.CloudOperator, "", "op2"), newKey(keyring.Org, "org_a", "tenant"))
	w.pass(time.Minute)
	return w
}

// A credit is granted, is used up by no one, and is taken back by a revocation or by its expiry.
func TestCreditsAreGrantedAndEnd(t *testing.T) {
	t.Parallel()
	w := creditWorld(t)
	ending := credited("a", "c2", 7)
	ending.ExpiresNs = w.clockNs + int64(time.Hour)
	w.ok(credited("a", "c1", 5*money.Dollar), ending, credited("b", "c3", 1))
	w.wantBalances("a", "-5.000000007", "5.000000007")
	w.ok(credited("a", "c1", 5*money.Dollar)) // a repeat
	for _, other := range []*GrantCredit{credited("b", "c1", 5*money.Dollar), credited("a", "c1", 6*money.Dollar)} {
		w.refused(api.Conflict, other)
	}
	w.ok(revoked("c1"))
	w.refused(api.StateConflict, revoked("c1"))
	w.refused(api.NotFound, revoked("c9"))
	w.refused(api.NotFound, credited("none", "c4", 1))
	w.wantBalances("a", "-0.000000007", "0.000000007")
	w.pass(time.Hour - 1)
	w.ok(&StartTerm{Meta: by("engine")})
	w.wantCredit("c2", CreditActive, "0.000000007")
	w.pass(1)
	w.ok(&StartTerm{Meta: by("engine")}) // any entry
	w.wantCredit("c1", CreditRevoked, "0")
	w.wantCredit("c2", CreditExpired, "0")
	w.wantBalances("a", "0", "0")
	w.wantBalances("b", "-0.000000001", "0.000000001")
	w.refused(api.StateConflict, revoked("c2"))
	past := credited("a", "c5", 1)
	past.ExpiresNs = w.clockNs
	w.refused(api.ValidationError, past)

	rows, err := w.store().Audit(t.Context(), "org_a", 0, MaxPage)
	if err != nil {
		t.Fatal(err)
	}
	var actions []string
	for _, r := range rows {
		actions = append(actions, r.Action+" "+r.Target)
	}
	if got, want := strings.Join(actions, ", "), "create-org org_a, create-credential tenant, grant-credit c1, grant-credit c2, revoke-credit c1, expire-credit c2"; got != want {
		t.Errorf("the audit log has %s, want %s", got, want)
	}
	if _, err := w.store().Credit(t.Context(), "org_b", "c1"); refused(err, api.NotFound) != nil {
		t.Errorf("the credit of another organisation: %v", err)
	}
}

// Operators grant up to MaxSole to an organisation in a calendar month without a second person, in any number of
// credits.
func TestLargeCreditsNeedASecondPerson(t *testing.T) {
	t.Parallel()
	w := creditWorld(t)
	w.ok(credited("a", "c1", MaxSole-1), credited("a", "c2", 1), credited("b", "c3", MaxSole))
	w.ok(credited("a", "c4", 1))
	w.wantCredit("c2", CreditActive, "0.000000001")
	w.wantCredit("c4", CreditPending, "0")
	w.wantBalances("a", "-1000", "1000")
	w.ok(revoked("c1"), credited("a", "c5", 1)) // a revocation makes no room
	w.wantCredit("c5", CreditPending, "0")

	w.refused(api.Forbidden, approving("op", "c4"))
	w.refused(api.Forbidden, approving("tenant", "c4"))
	w.refused(api.Forbidden, approving("nobody", "c4"))
	w.ok(newKey(keyring.CloudOperator, "", "op3"))
	w.pass(time.Hour)
	if e := w.refused(api.Forbidden, approving("op3", "c4")); !strings.Contains(e.Message, "your key is not older than the request") {
		t.Error(e)
	}
	w.ok(approving("op2", "c4"))
	w.refused(api.NotFound, approving("op2", "c4"))
	w.refused(api.NotFound, approving("op2", "c9"))
	w.wantCredit("c4", CreditActive, "0.000000001")
	if c := w.credit("c4"); c.Approver != "op2" || c.Principal != "op" {
		t.Errorf("credit c4 is %+v", c)
	}
	w.ok(revoked("c5"))
	w.wantCredit("c5", CreditWithdrawn, "0")
	w.refused(api.NotFound, approving("op2", "c5"))

	w.passTo("2023-12-01")
	w.ok(credited("a", "c6", MaxSole))
	w.wantCredit("c6", CreditActive, "1000")
	w.wantBalances("a", "-1000.000000002", "1000.000000002")
}

// A request that waits ends with the expiry of its credit.
func TestAPendingCreditExpires(t *testing.T) {
	t.Parallel()
	w := creditWorld(t)
	ending := credited("a", "c1", MaxCredit)
	ending.ExpiresNs = w.clockNs + int64(time.Hour)
	w.ok(ending)
	w.pass(time.Hour)
	if e, is := w.apply(approving("op2", "c1"))[0].(*api.Error); !is || refused(e, api.StateConflict) != nil {
		t.Errorf("a credit that is over was approved: %v", e)
	}
	w.wantCredit("c1", CreditExpired, "0") // after that entry
	w.refused(api.NotFound, approving("op2", "c1"))
	w.wantBalances("a", "0", "0")
}

// Amounts, currencies and texts that no credit has are refused before they are in the log.
func TestCreditsAreValidated(t *testing.T) {
	t.Parallel()
	for field, change := range map[string]func(*GrantCredit){
		"amount_usd is 0":                    func(o *GrantCredit) { o.Amount = 0 },
		"amount_usd is -0.000000001":         func(o *GrantCredit) { o.Amount = -1 },
		"amount_usd is -9223372036.85477580": func(o *GrantCredit) { o.Amount = math.MinInt64 },
		"amount_usd is 9223372036.85477580":  func(o *GrantCredit) { o.Amount = math.MaxInt64 },
		"amount_usd is 1000000.000000001":    func(o *GrantCredit) { o.Amount = int64(MaxCredit) + 1 },
		`currency is "EUR": only USD`:        func(o *GrantCredit) { o.Currency = "EUR" },
		"reason is missing":                  func(o *GrantCredit) { o.Reason = "" },
		"reason has 257 bytes":               func(o *GrantCredit) { o.Reason = strings.Repeat("x", MaxReason+1) },
		"reason has a control character":     func(o *GrantCredit) { o.Reason = "a\nb" },
		"expires_at is negative":             func(o *GrantCredit) { o.ExpiresNs = -1 },
		"org is missing":                     func(o *GrantCredit) { o.Org = "" },
		"id is missing":                      func(o *GrantCredit) { o.Id = "" },
	} {
		o := credited("a", "c1", MaxCredit)
		o.Reason = strings.Repeat("x", MaxReason)
		if err := o.Validate(); err != nil {
			t.Fatal(err)
		}
		change(o)
		if err := o.Validate(); refused(err, api.ValidationError) != nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v, want %s", err, field)
		}
	}
	if err := (&ApproveRequest{Kind: "x", Id: "c1"}).Validate(); refused(err, api.ValidationError) != nil {
		t.Error(err)
	}
	if err := (&RevokeCredit{Id: "c1"}).Validate(); refused(err, api.ValidationError) != nil {
		t.Error(err)
	}
}

// At the limit of open credits one more is refused, and an ended one makes room.
func TestCreditLimit(t *testing.T) {
	t.Parallel()
	w := creditWorld(t)
	w.limits.credits, w.limits.sole = 2, 1
	w.ok(credited("a", "c1", 1), credited("a", "c2", 1))
	w.wantCredit("c2", CreditPending, "0")
	w.refused(api.Conflict, credited("a", "c3", 1))
	w.ok(credited("b", "c4", 1), revoked("c2"), credited("a", "c3", 1))
}

// drawCredit draws an op of the ledger, or the key of an operator who may approve.
func (s *simulation) drawCredit() op {
	id := s.some("SELECT id FROM credits WHERE ended_ns = 0 ORDER BY id", "cr_none")
	switch s.rng.IntN(8) {
	case 0, 1, 2:
		o := credited("x", s.mint("cr_"), money.Nano(1+s.rng.IntN(12))*billing.Cent)
		o.Org = s.some("SELECT id FROM orgs ORDER BY id", "org_none")
		if s.rng.IntN(2) == 0 {
			o.ExpiresNs = s.clockNs + s.rng.Int64N(int64(30*time.Minute))
		}
		return o
	case 3, 4:
		return &ApproveRequest{Kind: approvalCredit, Id: s.some("SELECT id FROM approvals ORDER BY id", "cr_none")}
	case 5:
		return revoked(id)
	case 6:
		return closing([]string{"2023-09", "2023-10", "2023-11"}[s.rng.IntN(3)])
	}
	o := newKey(keyring.CloudOperator, "", fmt.Sprintf("p%d", s.rng.IntN(2)))
	o.Ensure = true
	return o
}
