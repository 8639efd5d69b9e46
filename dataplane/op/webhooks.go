package op

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// The events that webhooks are told of.
const (
	EventAlertFired    = "alert_fired"
	EventAlertResolved = "alert_resolved"
	EventTest          = "test"
)

// WebhookEvents are all of them.
var WebhookEvents = []string{EventAlertFired, EventAlertResolved, EventTest}

// checkWebhook looks at what a webhook says. An empty secret is the one that the
// webhook has.
func checkWebhook(p *problems, o *PutResource) {
	h := o.GetResource().GetWebhook()
	p.only(o, h != nil)
	p.add("url", checkWebhookURL(h.GetUrl()))
	if n := len(h.GetSecret()); n != 0 && (n < job.MinWebhookSecret || n > job.MaxWebhookSecret) {
		p.add("secret", fmt.Errorf("has %d bytes; it has from %d to %d", n, job.MinWebhookSecret, job.MaxWebhookSecret))
	}
	p.add("secret", job.CheckText(h.GetSecret(), len(h.GetSecret())))
	for i, event := range h.GetEvents() {
		switch {
		case !slices.Contains(WebhookEvents, event):
			p.item("events", i, "", fmt.Errorf("%.64q is no event; use any of %v", event, WebhookEvents))
		case slices.Contains(h.Events[:i], event):
			p.item("events", i, "", fmt.Errorf("%q is said twice", event))
		}
	}
	if n := h.GetRetryLimit(); n > job.MaxWebhookRetries {
		p.add("retry_limit", fmt.Errorf("is %d; at most %d are allowed", n, job.MaxWebhookRetries))
	}
}

// checkWebhookURL refuses what nothing can be posted to, as far as that needs no parser:
// the server has one. Which addresses may be called is the sender's to say: it knows
// what the name stands for when it calls.
func checkWebhookURL(text string) error {
	if text == "" {
		return errors.New("is missing")
	}
	if err := job.CheckText(text, job.MaxWebhookURL); err != nil {
		return err
	}
	rest, secure := strings.CutPrefix(text, "https://")
	rest, plain := strings.CutPrefix(rest, "http://")
	if secure == plain {
		return errors.New("must begin with https:// or http://")
	}
	host, _, _ := strings.Cut(strings.ReplaceAll(rest, "?", "/"), "/")
	switch {
	case strings.Contains(host, "@"):
		return errors.New("holds a user name, which anybody may read; the signature says who sends")
	case host == "" || host[0] == ':':
		return errors.New("names no host")
	case strings.Contains(rest, "#"):
		return errors.New("has a fragment, which is never sent")
	case strings.ContainsFunc(rest, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return errors.New("has spaces or control characters")
	}
	return nil
}

// admitWebhook keeps the secret of a webhook that is given none.
func admitWebhook(_ *state.Tx, o *PutResource, was *state.Resource) error {
	h := o.Resource.Webhook
	switch {
	case h.Secret != "":
	case was == nil:
		return api.Errorf(api.ValidationError, "secret is missing: what is sent is signed with it")
	default:
		h.Secret = was.Webhook.Secret
	}
	return nil
}

// releaseWebhook refuses to delete a webhook that alert rules notify: they would
// fire unheard.
func releaseWebhook(tx *state.Tx, was *state.Resource) error {
	for _, r := range tx.Book().Resources(state.ResourceKind_RESOURCE_KIND_ALERT_RULE) {
		if r.AlertRule.Notify == was.Name {
			return api.Errorf(api.Conflict, "alert rule %s (%q) notifies webhook %s: delete it, or have it notify another, first", r.Name, r.AlertRule.Label, was.Name)
		}
	}
	return nil
}

// deletedWebhook forgets how it was reached last. What is still to be sent to it is
// given up by the sender, which says so in the deliveries.
func deletedWebhook(tx *state.Tx, was *state.Resource) error {
	return tx.PutAttempted([16]byte(was.Id), nil)
}

// wants says whether a webhook is to be told of an event.
func wants(h *state.Webhook, event string) bool {
	return !h.Disabled && (len(h.Events) == 0 || slices.Contains(h.Events, event))
}

// newDelivery has a webhook sent an event, unless as many deliveries are kept as may
// be.
func newDelivery(tx *state.Tx, id []byte, webhook, event string, body []byte) (made bool, err error) {
	if tx.Deliveries() >= job.MaxDeliveries {
		return false, nil
	}
	return true, tx.PutDelivery([16]byte(id), &state.Delivery{
		Id: id, Webhook: webhook, Event: event, Body: body, CreatedNs: tx.ClockNs(), DueNs: tx.ClockNs(),
	})
}

// deliveryIDs records ids for deliveries that are not as many as they must be, or
// none.
func (p *problems) deliveryIDs(meta *Meta, n int) {
	if got := len(meta.GetIds()); got != n {
		p.add("meta.ids", fmt.Errorf("has %d ids for %d deliveries", got, n))
	}
	for _, id := range meta.GetIds() {
		p.resourceID("meta.ids", id)
	}
}
