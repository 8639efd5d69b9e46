package op

import (
	"errors"
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// NotifyWebhooks queues the deliveries of a shard's events to webhooks. Only the first shard calls webhooks,
// so each shard sends it this op in the commit of the events. Apply skips an event whose webhook is gone, is
// disabled or does not ask for it any more. If the waiting deliveries of a webhook, or all kept deliveries,
// are at their limit, Apply drops the delivery and counts it. meta.ids has an id for each delivery.

// Validate refuses an op that no state could accept.
func (o *NotifyWebhooks) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.length("notifications", len(o.Notifications), job.MaxNotifications)
	p.deliveryIDs(o.Meta, len(o.Notifications))
	for i, t := range o.Notifications {
		p.item("notifications", i, "webhook", checkResourceName(t.GetWebhook()))
		if t.GetEvent() == EveryEvent {
			p.item("notifications", i, "event", errors.New("is none, but all"))
		}
		p.item("notifications", i, "event", CheckWebhookEvent(t.GetEvent()))
		if n := len(t.GetBody()); n == 0 || n > job.MaxDeliveryBody {
			p.item("notifications", i, "body", fmt.Errorf("has %d bytes; from 1 to %d are allowed", n, job.MaxDeliveryBody))
		}
		if n := len(t.GetJobId()); n != 0 && n != len(job.ID{}) {
			p.item("notifications", i, "job_id", fmt.Errorf("has %d bytes; an id has %d", n, len(job.ID{})))
		}
	}
	p.whole(o)
	return p.err()
}

// Apply queues the deliveries. It refuses nothing.
func (o *NotifyWebhooks) Apply(tx *state.Tx) (*NotifyWebhooksResult, error) {
	result := &NotifyWebhooksResult{}
	for i, t := range o.Notifications {
		webhook := tx.ResourceIndex().Resource(state.ResourceKind_RESOURCE_KIND_WEBHOOK, t.Webhook)
		if webhook == nil || !wants(webhook.Webhook, t.Event) {
			continue
		}
		made, err := newDelivery(tx, o.Meta.Ids[i], webhook, t)
		if err != nil {
			return nil, err
		}
		if !made {
			result.Dropped++
		}
	}
	return result, nil
}
