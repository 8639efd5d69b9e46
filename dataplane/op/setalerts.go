package op

import (
	"errors"
	"fmt"
	"math"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// SetAlerts records which alert rules fire and which no longer do, and queues a delivery to the webhook of
// each changed rule unless the webhook is gone or disabled. Apply skips unchanged rules and rules that are
// gone or have another version than the proposer saw, so that a change is reported once even if two nodes
// believe that they lead. meta.ids has an id for the delivery of each change. The op is not repeatable,
// because a later op may have changed the alert back before the repeat. A lost answer does no harm, because
// the duty evaluates the rules again.

// Validate refuses an op that no state could accept.
func (o *SetAlerts) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.length("changes", len(o.Changes), job.MaxAlertRules)
	p.deliveryIDs(o.Meta, len(o.Changes))
	seen := map[string]bool{}
	for i, c := range o.Changes {
		if len(c.GetRuleId()) != len(job.ID{}) {
			p.item("changes", i, "rule_id", fmt.Errorf("has %d bytes; an id has %d", len(c.GetRuleId()), len(job.ID{})))
		}
		if seen[string(c.GetRuleId())] {
			p.item("changes", i, "rule_id", errors.New("is there twice"))
		}
		seen[string(c.GetRuleId())] = true
		if math.IsNaN(c.GetValue()) || math.IsInf(c.GetValue(), 0) {
			p.item("changes", i, "value", errors.New("is not a finite number"))
		}
		if c.GetBody() == nil {
			p.item("changes", i, "body", errors.New("is missing"))
		}
		p.blob("changes", i, "body", c.GetBody(), job.MaxDeliveryBody)
	}
	p.whole(o)
	return p.err()
}

// Apply changes the state of the rules and queues the deliveries, or counts them as dropped if the limits of
// deliveries are reached. It refuses nothing.
func (o *SetAlerts) Apply(tx *state.Tx) (*SetAlertsResult, error) {
	result := &SetAlertsResult{}
	for i, c := range o.Changes {
		rule := tx.ResourceIndex().ResourceByID([16]byte(c.RuleId))
		if rule.GetAlertRule() == nil || rule.Version != c.RuleVersion {
			continue
		}
		a, err := tx.Alert([16]byte(c.RuleId))
		if err != nil {
			return nil, err
		}
		if a.GetFiring() == c.Firing {
			continue
		}
		said, event := EventAlertResolved, state.EventType_EVENT_ALERT_RESOLVED
		if c.Firing {
			said, event = EventAlertFired, state.EventType_EVENT_ALERT_FIRED
		}
		a = &state.Alert{Id: c.RuleId, Name: rule.Name, Firing: c.Firing, SinceNs: tx.ClockNs(), Value: c.Value}
		if err := tx.PutAlert([16]byte(c.RuleId), a, event); err != nil {
			return nil, err
		}
		result.Changed++
		webhook := tx.ResourceIndex().Resource(state.ResourceKind_RESOURCE_KIND_WEBHOOK, rule.AlertRule.Notify)
		// The rule names the webhook, so the webhook's own list of events does not apply: an alert that fires in
		// silence is worse than an event that nobody asked for.
		if webhook == nil || webhook.Webhook.Disabled {
			continue
		}
		made, err := newDelivery(tx, o.Meta.Ids[i], webhook, &Notification{Event: said, Body: c.Body.Data})
		if err != nil {
			return nil, err
		}
		if !made {
			result.Dropped++
		}
	}
	return result, nil
}
