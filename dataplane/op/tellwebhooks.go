package op

import (
	"errors"
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// TellWebhooks queues the deliveries of a shard's events to webhooks. Only the first shard calls webhooks; the
// others send it this op in the commit of the events. It skips events for a webhook that is gone, disabled or no
// longer asks for them. If too many deliveries wait, it drops the event and counts it. meta.ids has an id for
// each delivery.

// Number is TellWebhooks's number in the log.
func (*TellWebhooks) Number() entry.Number { return numTellWebhooks }

// Class is TellWebhooks's place among waiting proposals.
func (*TellWebhooks) Class() pipeline.Class { return table[numTellWebhooks].Class }

// Validate refuses an op that no state could accept.
func (o *TellWebhooks) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.length("tellings", len(o.Tellings), job.MaxTellings)
	p.deliveryIDs(o.Meta, len(o.Tellings))
	for i, t := range o.Tellings {
		p.item("tellings", i, "webhook", checkResourceName(t.GetWebhook()))
		if t.GetEvent() == EveryEvent {
			p.item("tellings", i, "event", errors.New("is none, but all"))
		}
		p.item("tellings", i, "event", CheckWebhookEvent(t.GetEvent()))
		if n := len(t.GetBody()); n == 0 || n > job.MaxDeliveryBody {
			p.item("tellings", i, "body", fmt.Errorf("has %d bytes; from 1 to %d are allowed", n, job.MaxDeliveryBody))
		}
		if n := len(t.GetJobId()); n != 0 && n != len(job.ID{}) {
			p.item("tellings", i, "job_id", fmt.Errorf("has %d bytes; an id has %d", n, len(job.ID{})))
		}
	}
	p.whole(o)
	return p.err()
}

// Apply queues the deliveries. It refuses nothing.
func (o *TellWebhooks) Apply(tx *state.Tx) (*TellWebhooksResult, error) {
	result := &TellWebhooksResult{}
	for i, t := range o.Tellings {
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
