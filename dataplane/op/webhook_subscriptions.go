package op

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/dataplane/state/event"
	"github.com/corvo/corvo/tenancy"
)

// subscriptions maps each event type of the feed, except those of alerts, to the webhooks that ask for it,
// sorted by name. It is computed from the declared resources, and again when they change.
type subscriptions struct {
	resources *state.ResourceIndex
	of        map[state.EventType][]subscription
}

// subscription is a webhook that asks for an event.
type subscription struct {
	webhook *state.Resource
	queues  []tenancy.Glob // empty: events of every queue, and events without a queue
}

// follow computes the subscriptions again if the resources have changed.
func (s *subscriptions) follow(resources *state.ResourceIndex) error {
	if s.resources == resources {
		return nil
	}
	of := map[state.EventType][]subscription{}
	for _, r := range resources.Resources(state.ResourceKind_RESOURCE_KIND_WEBHOOK) {
		sub := subscription{webhook: r}
		for _, text := range r.Webhook.Queues {
			glob, err := tenancy.ParseGlob(text)
			if err != nil {
				return fmt.Errorf("webhook %s: %w", r.Name, err)
			}
			sub.queues = append(sub.queues, glob)
		}
		for t := range state.EventType(len(state.EventType_name)) {
			// SetAlerts notifies the webhook that an alert's rule names, and no other.
			if word, ok := event.Word(t); ok && t != state.EventType_EVENT_ALERT_FIRED && t != state.EventType_EVENT_ALERT_RESOLVED && wants(r.Webhook, word) {
				of[t] = append(of[t], sub)
			}
		}
	}
	s.resources, s.of = resources, of
	return nil
}

// covers reports whether the webhook receives the events of a queue.
func (s *subscription) covers(queue string) bool {
	return len(s.queues) == 0 || slices.ContainsFunc(s.queues, func(g tenancy.Glob) bool { return queue != "" && g.Match(queue) })
}

// notify sends the entry's events that a webhook asks for to the first shard, in the entry's own commit. If
// the outbox to the first shard is full, notify drops the notifications and counts them. event.Compose says
// which facts an event's document has.
func (s *subscriptions) notify(tx *state.Tx) error {
	if err := s.follow(tx.ResourceIndex()); err != nil || len(s.of) == 0 {
		return err
	}
	o, bytes := &NotifyWebhooks{Meta: &Meta{}}, 0
	flush := func() error {
		full := o
		o, bytes = &NotifyWebhooks{Meta: &Meta{}}, 0
		switch {
		case len(full.Notifications) == 0:
			return nil
		case tx.Shard() != firstShard && !tx.CanSend(firstShard):
			// Dropping them lets the shard continue to work if the first shard is unreachable for long.
			tx.DropWebhookEvents(len(full.Notifications))
			return nil
		}
		return send(tx, firstShard, full)
	}
	for seq, e := range tx.Events() {
		subs := s.of[e.Type]
		// Composing an event's document costs more than finding that no webhook covers its queue.
		if !slices.ContainsFunc(subs, func(sub subscription) bool { return sub.covers(e.Queue) }) {
			continue
		}
		said, ok, err := event.Compose(tx, seq, tx.ClockNs(), e)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		body, err := json.Marshal(said)
		if err != nil {
			return err
		}
		for _, sub := range subs {
			if !sub.covers(said.Queue) {
				continue
			}
			if len(o.Notifications) == job.MaxNotifications || bytes+len(body) > maxNotificationBytes {
				if err := flush(); err != nil {
					return err
				}
			}
			id := tx.NewID(e.Queue)
			o.Meta.Ids = append(o.Meta.Ids, id[:])
			o.Notifications = append(o.Notifications, &Notification{Webhook: sub.webhook.Name, Event: said.Type, Body: body, JobId: slices.Clone(e.JobId)})
			bytes += len(body)
		}
	}
	return flush()
}

// maxNotificationBytes bounds the documents of one NotifyWebhooks.
const maxNotificationBytes = 1 << 20
