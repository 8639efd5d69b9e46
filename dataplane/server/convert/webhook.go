package convert

import (
	"net/url"
	"strconv"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/sinks"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
)

// defaultRetryLimit is the number of retries of a delivery if the webhook sets none.
const defaultRetryLimit = 3

// defaultSecretOverlap is how long deliveries are also signed with the old secret after a change of the
// secret, if the webhook sets no time.
const defaultSecretOverlap = 24 * time.Hour

// FromHook converts a webhook and fills in defaults. Without a secret in the request, the webhook keeps its
// own; the op refuses a new webhook without one.
func FromHook(f *Faults, r *api.WebhookRequest) *op.PutResource {
	h := &state.Webhook{Url: r.URL, Secret: r.Secret, Events: r.Events, Queues: r.Queues, RetryLimit: defaultRetryLimit, Disabled: r.Enabled != nil && !*r.Enabled}
	switch u, err := url.Parse(r.URL); {
	case r.URL == "":
		f.Invalid("url", "is missing")
	case err != nil:
		f.Invalid("url", "is no URL")
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		f.Invalid("url", "is not of the kind https://host/path")
	case !isPort(u.Port()):
		f.Invalid("url", "has the port %s: ports are from 1 to 65535", text.Quote(u.Port()))
	}
	if n := len(r.Secret); n != 0 && (n < job.MinWebhookSecret || n > job.MaxWebhookSecret) {
		f.Invalid("secret", "has %d bytes; it has from %d to %d", n, job.MinWebhookSecret, job.MaxWebhookSecret)
	}
	for _, event := range r.Events {
		if err := op.CheckWebhookEvent(event); err != nil {
			f.Invalid("events", "%v", err)
		}
	}
	for _, glob := range r.Queues {
		if _, err := tenancy.ParseGlob(glob); err != nil {
			f.Invalid("queues", "%v", err)
		}
	}
	h.SecretOverlapMs = millis(f, "secret_overlap", r.SecretOverlap, defaultSecretOverlap, job.MaxSecretOverlap)
	if r.RetryLimit != nil {
		if n := *r.RetryLimit; n < 0 || n > job.MaxWebhookRetries {
			f.Invalid("retry_limit", "is %d; it lies between 0 and %d", n, job.MaxWebhookRetries)
		} else {
			h.RetryLimit = uint32(n)
		}
	}
	return &op.PutResource{Resource: &state.Resource{Webhook: h}}
}

// ToHook converts a webhook to its API form, without its secret. a is the record of the webhook's deliveries,
// or nil before the first delivery. The end of the old secret is shown until nowNs has reached it.
func ToHook(r *state.Resource, a *state.Attempted, nowNs int64) api.Webhook {
	h := r.Webhook
	out := api.Webhook{ID: r.Name, URL: h.GetUrl(), Events: h.GetEvents(), Enabled: !h.GetDisabled(), RetryLimit: int(h.GetRetryLimit()), CreatedAt: timeOf(r.CreatedNs)}
	if out.Events == nil {
		out.Events = []string{}
	}
	if out.Queues = h.GetQueues(); out.Queues == nil {
		out.Queues = []string{}
	}
	out.SecretOverlap = api.DurationOf(time.Duration(h.GetSecretOverlapMs()) * time.Millisecond)
	if h.GetPreviousUntilNs() > nowNs {
		at := timeOf(h.PreviousUntilNs)
		out.OldSecretUntil = &at
	}
	out.Waiting, out.Dropped = int64(a.GetWaiting()), int64(a.GetDropped())
	if since := a.GetFailingSinceNs(); since != 0 {
		at := timeOf(since)
		out.FailingSince = &at
	}
	out.LastStatusCode, out.LastError, out.LastDeliveryAt = attempted(a.GetStatus(), a.GetError(), a.GetAtNs())
	return out
}

// isPort reports whether text is a valid port; "" stands for the default of the scheme.
func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return text == "" || err == nil && n > 0
}

// ConcealHook reduces a webhook's URL to its scheme, host and port, because the path and the query often
// contain a secret.
func ConcealHook(h *api.Webhook) {
	u, err := url.Parse(h.URL)
	if err != nil { // cannot happen: FromHook has parsed this URL
		h.URL = ""
		return
	}
	h.URL = (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
}

// ConcealDeliveries removes the delivery figures of a webhook. Deliveries may concern any queue, so their
// number and times would reveal the activity of queues that the caller may not see.
func ConcealDeliveries(h *api.Webhook) {
	h.Waiting, h.Dropped, h.FailingSince = 0, 0, nil
	h.LastStatusCode, h.LastError, h.LastDeliveryAt = nil, nil, nil
}

// ToDelivery converts a delivery to its API form. A delivery that is neither due nor delivered has failed.
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

// attempted converts the outcome of a delivery attempt to its API form; each zero value becomes nil.
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
