package op

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/dataplane/state/event"
	"github.com/corvo/corvo/tenancy"
)

// These events are for webhooks. All but EventTest are also in the feed (event.Types).
const (
	EventAlertFired      = "alert_fired"
	EventAlertResolved   = "alert_resolved"
	EventTest            = "test"
	EventWebhookDisabled = "webhook_disabled"

	// EveryEvent stands for all events.
	EveryEvent = "*"
)

// WebhookEvents are the events of a webhook that names none.
var WebhookEvents = []string{EventAlertFired, EventAlertResolved, EventTest, EventWebhookDisabled}

// CheckWebhookEvent refuses a word that no webhook may list: it is no event of the feed, not EventTest and
// not EveryEvent.
func CheckWebhookEvent(word string) error {
	if word == EveryEvent || word == EventTest || slices.Contains(event.Types, word) {
		return nil
	}
	return fmt.Errorf("%.64q is not an event; use any of %v, %s, or %q for all", word, event.Types, EventTest, EveryEvent)
}

// checkWebhook checks a declared webhook. An empty secret means the present one, so it passes here.
func checkWebhook(p *problems, o *PutResource) {
	h := o.GetResource().GetWebhook()
	p.only(o, h != nil)
	p.add("url", checkWebhookURL(h.GetUrl()))
	if n := len(h.GetSecret()); n != 0 && (n < job.MinWebhookSecret || n > job.MaxWebhookSecret) {
		p.add("secret", fmt.Errorf("has %d bytes; it has from %d to %d", n, job.MinWebhookSecret, job.MaxWebhookSecret))
	}
	p.add("secret", job.CheckText(h.GetSecret(), len(h.GetSecret())))
	for i, word := range h.GetEvents() {
		p.item("events", i, "", CheckWebhookEvent(word))
		if slices.Contains(h.Events[:i], word) {
			p.item("events", i, "", fmt.Errorf("%q is said twice", word))
		}
	}
	p.add("queues", checkWebhookQueues(h.GetQueues()))
	if ms := h.GetSecretOverlapMs(); ms < 0 || ms > job.MaxSecretOverlap.Milliseconds() {
		p.add("secret_overlap", fmt.Errorf("is %d ms; it lies between 0 and %s", ms, job.MaxSecretOverlap))
	}
	if n := h.GetRetryLimit(); n > job.MaxWebhookRetries {
		p.add("retry_limit", fmt.Errorf("is %d; at most %d are allowed", n, job.MaxWebhookRetries))
	}
}

// checkWebhookURL refuses an address that cannot be called. It uses no parser; the server parses the address.
// The sender decides which addresses may be called, because only the sender knows the IP address at the time
// of the call.
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
		return errors.New("contains a user name, which is not secret: remove it and check the signature instead")
	case host == "" || host[0] == ':':
		return errors.New("names no host")
	case strings.Contains(rest, "#"):
		return errors.New("has a fragment, which HTTP does not send: remove it")
	case strings.ContainsFunc(rest, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return errors.New("has spaces or control characters")
	}
	return nil
}

// checkWebhookQueues checks the queue globs that a webhook names.
func checkWebhookQueues(globs []string) error {
	if len(globs) > job.MaxWebhookQueues {
		return fmt.Errorf("are %d; at most %d may be named", len(globs), job.MaxWebhookQueues)
	}
	for _, glob := range globs {
		if _, err := tenancy.ParseGlob(glob); err != nil {
			return err
		}
	}
	return nil
}

// admitWebhook keeps the secret of a webhook if the declaration has none, and refuses a new webhook without a
// secret with VALIDATION_ERROR. If the secret changes and an overlap is given, deliveries are signed with
// both secrets during the overlap, so that the receiver can switch without losing any.
func admitWebhook(tx *state.Tx, o *PutResource, was *state.Resource) error {
	h := o.Resource.Webhook
	h.PreviousSecret, h.PreviousUntilNs = "", 0
	if was == nil {
		if h.Secret == "" {
			return api.Errorf(api.ValidationError, "secret is missing: give the secret that signs deliveries")
		}
		return nil
	}
	old := was.Webhook
	switch {
	case h.Secret == "" || h.Secret == old.Secret:
		h.Secret, h.PreviousSecret, h.PreviousUntilNs = old.Secret, old.PreviousSecret, old.PreviousUntilNs
	case h.SecretOverlapMs > 0:
		h.PreviousSecret, h.PreviousUntilNs = old.Secret, tx.ClockNs()+h.SecretOverlapMs*1e6
	}
	return nil
}

// putWebhook resets the failures of a webhook that is enabled again, so that earlier failures do not disable
// it. Only the first shard, which calls webhooks, has a record of failures.
func putWebhook(tx *state.Tx, o *PutResource, was *state.Resource) error {
	if was == nil || !was.Webhook.Disabled || o.Resource.Webhook.Disabled || tx.Shard() != 0 {
		return nil
	}
	a, err := tx.Attempted([16]byte(was.Id))
	if a == nil || err != nil {
		return err
	}
	a.GivenUp, a.FailingSinceNs = 0, 0
	return tx.PutAttempted([16]byte(was.Id), a)
}

// releaseWebhook refuses with CONFLICT to delete a webhook that alert rules notify, because their alerts
// would reach nobody.
func releaseWebhook(tx *state.Tx, was *state.Resource) error {
	for _, r := range tx.ResourceIndex().Resources(state.ResourceKind_RESOURCE_KIND_ALERT_RULE) {
		if r.AlertRule.Notify == was.Name {
			return api.Errorf(api.Conflict, "alert rule %s (%q) notifies webhook %s: delete it, or have it notify another, first", r.Name, r.AlertRule.Label, was.Name)
		}
	}
	return nil
}

// deletedWebhook removes the record of the webhook's last attempts. The sender gives up the waiting deliveries
// and records that in them.
func deletedWebhook(tx *state.Tx, was *state.Resource) error {
	return tx.PutAttempted([16]byte(was.Id), nil)
}

// wants reports whether a webhook asks for an event. A disabled webhook asks for none. A webhook that names
// no events receives only the WebhookEvents, because each job causes several events.
func wants(h *state.Webhook, event string) bool {
	switch {
	case h.Disabled:
		return false
	case len(h.Events) == 0:
		return slices.Contains(WebhookEvents, event)
	}
	return slices.Contains(h.Events, event) || slices.Contains(h.Events, EveryEvent)
}

// newDelivery queues a delivery to a webhook, unless the number of the webhook's waiting deliveries, or of
// all kept deliveries, is at its limit. At a limit newDelivery counts the delivery as dropped and returns
// false. If a delivery with the id is stored already, newDelivery changes nothing and returns true.
func newDelivery(tx *state.Tx, id []byte, webhook *state.Resource, t *Notification) (made bool, err error) {
	known, err := tx.Delivery([16]byte(id))
	if known != nil || err != nil {
		return known != nil, err
	}
	a, err := tx.Attempted([16]byte(webhook.Id))
	if err != nil {
		return false, err
	}
	if a == nil {
		a = &state.Attempted{}
	}
	made = a.Waiting < job.MaxWebhookWaiting && tx.Deliveries() < job.MaxDeliveries
	if made {
		a.Waiting++
		err = tx.PutDelivery([16]byte(id), &state.Delivery{
			Id: id, Webhook: webhook.Name, Event: t.Event, Body: t.Body, JobId: t.JobId, Number: tx.NumberDelivery(),
			CreatedNs: tx.ClockNs(), DueNs: tx.ClockNs(),
		})
	} else {
		a.Dropped++
	}
	if err != nil {
		return false, err
	}
	return made, tx.PutAttempted([16]byte(webhook.Id), a)
}

// deliveryIDs records a wrong number of delivery ids and ids of the wrong length.
func (p *problems) deliveryIDs(meta *Meta, n int) {
	if got := len(meta.GetIds()); got != n {
		p.add("meta.ids", fmt.Errorf("has %d ids for %d deliveries", got, n))
	}
	for _, id := range meta.GetIds() {
		p.resourceID("meta.ids", id)
	}
}
