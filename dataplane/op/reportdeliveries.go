package op

import (
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// ReportDeliveries says how attempts to deliver events ended. Each counts once: what
// is not about the attempt after the last one known is skipped.

// Number is ReportDeliveries's number in the log.
func (*ReportDeliveries) Number() entry.Number { return numReportDeliveries }

// Class is ReportDeliveries's place among waiting proposals.
func (*ReportDeliveries) Class() pipeline.Class { return table[numReportDeliveries].Class }

// Validate refuses what no state could accept.
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

// Apply notes how the attempts ended. It refuses nothing.
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

// attempted notes what the attempt says of the webhook. One that could not be reached
// for long is disabled, for whoever is told of nothing should know.
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

// disableWebhook has nothing be sent to a webhook any more, as if somebody had declared
// that. The record is shared with readers, so another takes its place.
func disableWebhook(tx *state.Tx, webhook *state.Resource) error {
	r := proto.Clone(webhook).(*state.Resource)
	r.Version++
	r.Webhook.Disabled = true
	if err := tx.PutResource(r); err != nil {
		return err
	}
	return sendToOthers(tx, r.Shards, &PutResource{Resource: r, Sent: true})
}
