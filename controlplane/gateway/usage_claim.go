package gateway

import (
	"context"
	"time"

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/billing"
)

// reportClaim reports the gateway's claim to the control plane, if it is due. It reports a claim that fails again with the
// next delivery of usage.
func (m *meter) reportClaim(ctx context.Context) {
	now := time.Now()
	if now.Before(m.claimDue) || m.member.Token() == "" {
		return
	}
	if _, err := m.member.Report(ctx, fleet.Report{Number: m.member.Number(), Usage: m.claim()}); err != nil {
		m.log.Debug("the gateway's claim that its usage is complete was not taken; it tries again", "error", err)
		return
	}
	m.claimDue = now.Add(billing.ClaimEvery)
}

// claim returns the claim that the usage of all namespaces is complete until the oldest request that is not delivered, or
// else until now.
func (m *meter) claim() *billing.Claim {
	m.mu.Lock()
	defer m.mu.Unlock()
	until := m.now()
	for _, l := range m.ledgers {
		if l.pending != nil && l.pendingSince.Before(until) {
			until = l.pendingSince
		}
		if l.count > 0 && l.openSince.Before(until) {
			until = l.openSince
		}
	}
	return &billing.Claim{UntilNs: until.UnixNano()}
}
