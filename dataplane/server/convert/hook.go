package convert

import (
	"net/url"
	"slices"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/sinks"
	"github.com/corvo/corvo/dataplane/state"
)

// defaultRetryLimit is how often a delivery is tried again that says nothing.
const defaultRetryLimit = 3

// jobEvents are the documented events of jobs and queues. No webhook is told of them
// yet.
var jobEvents = []string{
	"enqueued", "scheduled", "started", "progress", "checkpointed", "failed", "retrying", "completed", "continued", "held", "approved", "rejected",
	"cancelled", "cancelling", "dead", "expired", "reclaimed", "moved", "deleted", "unique_duplicate", "batch_completed", "chain_advanced",
	"queue_paused", "queue_resumed", "queue_cleared", "budget_alert", "budget_exceeded",
}

// FromHook is the webhook a request describes, defaults filled in. A secret that is
// absent is the one the webhook has.
func FromHook(f *Faults, r *api.WebhookRequest) *op.PutResource {
	h := &state.Webhook{Url: r.URL, Secret: r.Secret, Events: r.Events, RetryLimit: defaultRetryLimit, Disabled: r.Enabled != nil && !*r.Enabled}
	switch u, err := url.Parse(r.URL); {
	case r.URL == "":
		f.Invalid("url", "is missing")
	case err != nil:
		f.Invalid("url", "is no URL")
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		f.Invalid("url", "is not of the kind https://host/path")
	}
	if n := len(r.Secret); n != 0 && (n < job.MinWebhookSecret || n > job.MaxWebhookSecret) {
		f.Invalid("secret", "has %d bytes; it has from %d to %d", n, job.MinWebhookSecret, job.MaxWebhookSecret)
	}
	for _, event := range r.Events {
		switch {
		case slices.Contains(op.WebhookEvents, event):
		case slices.Contains(jobEvents, event):
			f.add(api.Unsupported, "events", "has %q: webhooks are told of %v only, by this server, yet", event, op.WebhookEvents)
		default:
			f.Invalid("events", "has %s, which is no event; use any of %v", Excerpt(event), op.WebhookEvents)
		}
	}
	if r.RetryLimit != nil {
		if n := *r.RetryLimit; n < 0 || n > job.MaxWebhookRetries {
			f.Invalid("retry_limit", "is %d; it lies between 0 and %d", n, job.MaxWebhookRetries)
		} else {
			h.RetryLimit = uint32(n)
		}
	}
	return &op.PutResource{Resource: &state.Resource{Webhook: h}}
}

// ToHook is a webhook as clients see it: without its secret. a is how it was reached
// last, nil before.
func ToHook(r *state.Resource, a *state.Attempted) api.Webhook {
	h := r.Webhook
	out := api.Webhook{ID: r.Name, URL: h.GetUrl(), Events: h.GetEvents(), Enabled: !h.GetDisabled(), RetryLimit: int(h.GetRetryLimit()), CreatedAt: timeOf(r.CreatedNs)}
	if out.Events == nil {
		out.Events = []string{}
	}
	out.LastStatusCode, out.LastError, out.LastDeliveryAt = attempted(a.GetStatus(), a.GetError(), a.GetAtNs())
	return out
}

// ToDelivery is a delivery as clients see it.
func ToDelivery(d *state.Delivery) api.Delivery {
	out := api.Delivery{
		ID: sinks.DeliveryIDText(job.ID(d.Id)), Event: d.Event, Body: d.Body, Attempts: int(d.Attempts), CreatedAt: timeOf(d.CreatedNs), State: api.DeliveryFailed,
	}
	switch {
	case d.DueNs != 0:
		at := timeOf(d.DueNs)
		out.State, out.NextAttemptAt = api.DeliveryPending, &at
	case d.Delivered:
		out.State = api.DeliveryDelivered
	}
	out.LastStatusCode, out.LastError, out.LastAttemptAt = attempted(d.LastStatus, d.LastError, d.LastAttemptNs)
	return out
}

// attempted is how an attempt ended, as clients see it.
func attempted(status uint32, failure string, atNs int64) (code *int, text *string, at *api.Time) {
	if status != 0 {
		n := int(status)
		code = &n
	}
	if failure != "" {
		text = &failure
	}
	if atNs != 0 {
		t := api.TimeOf(time.Unix(0, atNs))
		at = &t
	}
	return code, text, at
}
