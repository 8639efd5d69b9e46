package server

import (
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/tenancy/keyring"
)

// TestOperatorKeys creates a key for a second operator, who approves a credit of the first one. Each revokes only the
// other's key.
func TestOperatorKeys(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	ops, ctx := f.cloud(f.operator), t.Context()
	made, err := ops.CreateOperator(ctx, api.CreateOperatorRequest{Name: "Ana"})
	if err != nil || made.APIKey == "" || made.Name != "Ana" {
		t.Fatalf("%+v: %v", made, err)
	}
	ana := f.cloud(made.APIKey)
	credit, err := ops.GrantCredit(ctx, "acme", api.GrantCreditRequest{AmountUSD: 5_000_000_000_000, Reason: "a pilot"})
	if err != nil {
		t.Fatal(err)
	}
	if credit, err = ana.ApproveCredit(ctx, "acme", credit.ID); err != nil || credit.Status != api.CreditActive || credit.ApprovedBy != made.ID {
		t.Errorf("%+v: %v", credit, err)
	}
	all, err := ana.Operators(ctx)
	if err != nil || len(all) != 2 || all[1].ID != made.ID {
		t.Errorf("the operators are %+v: %v", all, err)
	}
	if err := ana.RevokeOperator(ctx, made.ID); api.CodeOf(err) != api.StateConflict {
		t.Errorf("the own key: %v", err)
	}
	if err := ops.RevokeOperator(ctx, made.ID); err != nil {
		t.Error(err)
	}
	if _, err := ana.Operators(ctx); api.CodeOf(err) != api.Unauthorized {
		t.Errorf("a revoked key: %v", err)
	}
	_, tenant, _ := keyring.Parse(admin)
	for _, c := range []struct {
		method, path, key, body string
		want                    api.Code
	}{
		{"GET", "", admin, "", api.Forbidden},
		{"POST", "", admin, `{"name":"x"}`, api.Forbidden},
		{"DELETE", "/" + made.ID, admin, "", api.Forbidden},
		{"DELETE", "/" + made.ID, f.operator, "", api.NotFound},
		{"DELETE", "/" + tenant, f.operator, "", api.NotFound},
		{"POST", "", f.operator, `{}`, api.ValidationError},
		{"POST", "", f.operator, `{"name":"` + strings.Repeat("x", 129) + `"}`, api.ValidationError},
		{"POST", "", f.operator, `{"name":"a\nb"}`, api.ValidationError},
	} {
		if a := f.send(c.method, cloud+"/operators"+c.path, c.key, c.body); a.problem(t).Code != c.want {
			t.Errorf("%s %s: %d %s, want %s", c.method, c.path, a.status, a.body, c.want)
		}
	}
}
