package op

import (
	"errors"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// QueueDelivery queues one delivery to a webhook, such as a test, at a client's request, whether or not the
// webhook asks for the event. It is refused with NOT_FOUND if the webhook does not exist, and with CONFLICT
// if the webhook is disabled, or if the webhook's waiting deliveries or all kept deliveries are at their
// limit. meta.ids has the delivery's id.

// Validate refuses an op that no state could accept.
func (o *QueueDelivery) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.deliveryIDs(o.Meta, 1)
	p.add("webhook", checkResourceName(o.Webhook))
	p.add("event", CheckWebhookEvent(o.Event))
	if len(o.Body) == 0 {
		p.add("body", errors.New("is missing"))
	}
	if n := len(o.Body); n > job.MaxDeliveryBody {
		p.Add(api.PayloadTooLarge, "body", "has %d bytes; at most %d are allowed", n, job.MaxDeliveryBody)
	}
	return p.err()
}

// Apply queues the delivery.
func (o *QueueDelivery) Apply(tx *state.Tx) (*QueueDeliveryResult, error) {
	webhook := tx.ResourceIndex().Resource(state.ResourceKind_RESOURCE_KIND_WEBHOOK, o.Webhook)
	switch {
	case webhook == nil:
		return nil, api.Errorf(api.NotFound, "there is no webhook %q", o.Webhook)
	case webhook.Webhook.Disabled:
		return nil, api.Errorf(api.Conflict, "webhook %s is not enabled: enable it first", o.Webhook)
	}
	id := o.Meta.Ids[0]
	made, err := newDelivery(tx, id, webhook, &Notification{Event: o.Event, Body: o.Body})
	switch {
	case err != nil:
		return nil, err
	case !made:
		return nil, api.Errorf(api.Conflict, "%d deliveries wait for the webhook, or %d for all webhooks, the maximum: repair or delete the webhooks that fail", job.MaxWebhookWaiting, job.MaxDeliveries)
	}
	return &QueueDeliveryResult{Id: id}, nil
}
