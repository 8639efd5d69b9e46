package op

import (
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// ReportDeliveries records how attempts to deliver events ended, and disables webhooks that have failed for
// long. Each attempt counts once: Apply skips a report about a delivery that is gone or has ended, and a
// report that is not about the next attempt of its delivery.

// Validate refuses an op that no state could accept.
func (o *ReportDeliveries) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.length("reports", len(o.Reports), job.MaxDutyItems)
	for i, r := range o.Reports {
		if len(r.GetId()) != len(job.ID{}) {
			p.item("reports", i, "id", errors.New("is none"))
		}
		if r.GetAttempt() == 0 {
			p.item("reports", i, "attempt", errors.New("is 0; they count from 1"))
		}
		if r.GetRetryNs() < 0 || r.GetDelivered() && r.GetRetryNs() != 0 {
			p.item("reports", i, "retry_ns", errors.New("lies before 1970, or is that of a success"))
		}
		p.item("reports", i, "error", job.CheckText(r.GetError(), job.MaxDeliveryError))
	}
	p.whole(o)
	return p.err()
}

// Apply records the outcomes. It refuses nothing.
func (o *ReportDeliveries) Apply(tx *state.Tx) (*ReportDeliveriesResult, error) {
	for _, r := range o.Reports {
		d, err := tx.Delivery([16]byte(r.Id))
		if err != nil {
			return nil, err
		}
		if d.GetDueNs() == 0 || d.Attempts+1 != r.Attempt {
			continue
		}
		d.Attempts, d.LastStatus, d.LastError, d.LastAttemptNs = r.Attempt, r.Status, r.Error, tx.ClockNs()
		d.Delivered, d.DueNs = r.Delivered, r.RetryNs
		if r.RetryNs == 0 {
			d.PurgeNs = tx.ClockNs() + int64(job.DeliveryKept)
		}
		if err := tx.PutDelivery([16]byte(r.Id), d); err != nil {
			return nil, err
		}
		webhook := tx.ResourceIndex().Resource(state.ResourceKind_RESOURCE_KIND_WEBHOOK, d.Webhook)
		if webhook == nil {
			continue
		}
		if err := r.attempted(tx, webhook); err != nil {
			return nil, err
		}
	}
	return &ReportDeliveriesResult{}, nil
}

// attempted records the outcome with the webhook. It disables the webhook after job.WebhookGivenUp deliveries
// in a row were given up over at least job.WebhookFailing, so that its owner notices that nothing is
// delivered. If the outbox to another shard is full, a later report disables it.
func (r *DeliveryReport) attempted(tx *state.Tx, webhook *state.Resource) error {
	a, err := tx.Attempted([16]byte(webhook.Id))
	if err != nil {
		return err
	}
	if a == nil {
		a = &state.Attempted{}
	}
	a.Status, a.Error, a.AtNs = r.Status, r.Error, tx.ClockNs()
	if r.RetryNs == 0 && a.Waiting > 0 {
		a.Waiting--
	}
	switch {
	case r.Delivered:
		a.GivenUp, a.FailingSinceNs = 0, 0
	case r.RetryNs == 0 && !webhook.Webhook.Disabled:
		if a.GivenUp == 0 {
			a.FailingSinceNs = tx.ClockNs()
		}
		a.GivenUp++
	}
	var events []state.EventType
	if !webhook.Webhook.Disabled && a.GivenUp >= job.WebhookGivenUp && tx.ClockNs()-a.FailingSinceNs >= int64(job.WebhookFailing) &&
		roomToSend(tx, webhook.Shards) == nil {
		if err := disableWebhook(tx, webhook); err != nil {
			return err
		}
		events = append(events, state.EventType_EVENT_WEBHOOK_DISABLED)
	}
	return tx.PutAttempted([16]byte(webhook.Id), a, events...)
}

// disableWebhook disables a webhook as if somebody had declared it disabled. It replaces the record, because
// readers share the old one.
func disableWebhook(tx *state.Tx, webhook *state.Resource) error {
	r := proto.Clone(webhook).(*state.Resource)
	r.Version++
	r.Webhook.Disabled = true
	if err := tx.PutResource(r); err != nil {
		return err
	}
	return sendToOthers(tx, r.Shards, &PutResource{Resource: r, Sent: true})
}
