package controlplane

import (
	"errors"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/tenancy/keyring"
)

// The reconciler rates an organisation that sets a spend limit, and hosts and gateways hear of the hold. The hold and the
// alerts outlive a restart of the control plane. A raise by an operator ends the hold.
func TestASpendLimitReachesHosts(t *testing.T) {
	t.Parallel()
	p := startPlane(t, nil)
	// The fee below is for the rest of the month, so the month must not be about to end.
	if now := p.clock.Now().UTC(); now.Add(24*time.Hour).Month() != now.Month() {
		p.clock.forward(48 * time.Hour)
	}
	h := p.startHost("h1", keyring.Host)
	_, admin := p.org("acme")
	c, ops, ctx := p.cloud(admin), p.cloud(p.operator), t.Context()
	ns := p.namespace(c, "acme", "orders")
	fee := "100000"
	if _, err := ops.SetPlan(ctx, "acme", api.SetPlanRequest{Plan: "payg", Overrides: &api.PlanOverrides{MonthlyFee: &fee}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.SetSpendLimit(ctx, "acme", api.SetSpendLimitRequest{LimitUSD: 1_000_000_000}); err != nil {
		t.Fatal(err)
	}
	hold := func(want string) func() bool {
		return func() bool { d, _ := h.doc(ns.ID); return d.Hold == want }
	}
	until(t, "the host hears of the hold", hold("spend_limit"))
	limit, err := c.SpendLimit(ctx, "acme")
	if err != nil || !limit.Held || len(limit.Alerts) != 4 || limit.OverLimitUSD <= 0 {
		t.Errorf("the limit is %+v, %v", limit, err)
	}
	p.restart()
	after, err := c.SpendLimit(ctx, "acme")
	if err != nil || !after.Held || len(after.Alerts) != 4 || after.Alerts[3] != limit.Alerts[3] || *after.HeldSince != *limit.HeldSince {
		t.Errorf("after a restart the limit is %+v, %v", after, err)
	}
	raise := api.RaiseSpendLimitRequest{AmountUSD: 200_000_000_000_000, Reason: "a launch", ExpiresAt: api.Time(p.clock.Now().Add(time.Hour).UTC().Format(time.RFC3339))}
	if _, err := c.RaiseSpendLimit(ctx, "acme", raise); !errors.Is(err, &api.Error{Code: api.Forbidden}) {
		t.Errorf("a raise above the bound of organisations: %v", err)
	}
	if _, err := ops.RaiseSpendLimit(ctx, "acme", raise); err != nil {
		t.Fatal(err)
	}
	until(t, "the host hears of the raise", hold(""))
	p.clock.forward(time.Hour)
	until(t, "the host hears that the raise has expired", hold("spend_limit"))
	if _, err := c.ClearSpendLimit(ctx, "acme"); err != nil {
		t.Fatal(err)
	}
	until(t, "the host hears that the limit is gone", hold(""))
}
