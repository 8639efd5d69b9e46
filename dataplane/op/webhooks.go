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

// The events that webhooks are told of besides those of the feed (event.Types).
const (
	EventAlertFired      = "alert_fired"
	EventAlertResolved   = "alert_resolved"
	EventTest            = "test"
	EventWebhookDisabled = "webhook_disabled"

	// EveryEvent stands for all there are.
	EveryEvent = "*"
)

// WebhookEvents are what a webhook is told of that names no events.
var WebhookEvents = []string{EventAlertFired, EventAlertResolved, EventTest, EventWebhookDisabled}

// CheckWebhookEvent refuses what no webhook can ask for.
func CheckWebhookEvent(word string) error {
	if word == EveryEvent || word == EventTest || slices.Contains(event.Types, word) {
		return nil
	}
	return fmt.Errorf("%.64q is no event; use any of %v, %s, or %q for all", word, event.Types, EventTest, EveryEvent)
}

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

// checkWebhookQueues looks at the globs of the queues a webhook is told of.
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

// admitWebhook keeps the secret of a webhook that is given none. One that gets another
// is signed for with both for a while, so that its receiver may learn the new one at
// its leisure.
func admitWebhook(tx *state.Tx, o *PutResource, was *state.Resource) error {
	h := o.Resource.Webhook
	h.PreviousSecret, h.PreviousUntilNs = "", 0
	if was == nil {
		if h.Secret == "" {
			return api.Errorf(api.ValidationError, "secret is missing: what is sent is signed with it")
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

// putWebhook has a webhook that is enabled again begin anew: it is not disabled for what
// failed before.
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

// releaseWebhook refuses to delete a webhook that alert rules notify: they would
// fire unheard.
func releaseWebhook(tx *state.Tx, was *state.Resource) error {
	for _, r := range tx.ResourceIndex().Resources(state.ResourceKind_RESOURCE_KIND_ALERT_RULE) {
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

// wants says whether a webhook asks for an event. One that names none is told of alerts
// and of webhooks: of its jobs a namespace has as many events as it has work.
func wants(h *state.Webhook, event string) bool {
	switch {
	case h.Disabled:
		return false
	case len(h.Events) == 0:
		return slices.Contains(WebhookEvents, event)
	}
	return slices.Contains(h.Events, event) || slices.Contains(h.Events, EveryEvent)
}

// newDelivery has a webhook sent an event, unless as many deliveries wait for it, or are
// kept of all, as may be. That it was not told is counted.
func newDelivery(tx *state.Tx, id []byte, webhook *state.Resource, t *Telling) (made bool, err error) {
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
