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

// subscriptions are the webhooks that are told of the feed's events: of each type, by
// name. They follow from the book, and are computed again when there is another.
type subscriptions struct {
	book *state.ResourceIndex
	of   map[state.EventType][]subscription
}

// subscription is a webhook that asks for an event.
type subscription struct {
	webhook *state.Resource
	queues  []tenancy.Glob // none: every queue, and what is of none
}

// follow brings the subscriptions up to a book.
func (s *subscriptions) follow(book *state.ResourceIndex) error {
	if s.book == book {
		return nil
	}
	of := map[state.EventType][]subscription{}
	for _, r := range book.Resources(state.ResourceKind_RESOURCE_KIND_WEBHOOK) {
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
	s.book, s.of = book, of
	return nil
}

// covers says whether the webhook is told of the queue's events.
func (s *subscription) covers(queue string) bool {
	return len(s.queues) == 0 || slices.ContainsFunc(s.queues, func(g tenancy.Glob) bool { return queue != "" && g.Match(queue) })
}

// tell has webhooks told of the entry's events, in its own commit: what happened and that
// it is told are one. What an event says is what the records say at the end of the entry.
func (s *subscriptions) tell(tx *state.Tx) error {
	if err := s.follow(tx.ResourceIndex()); err != nil || len(s.of) == 0 {
		return err
	}
	o, bytes := &TellWebhooks{Meta: &Meta{}}, 0
	flush := func() error {
		full := o
		o, bytes = &TellWebhooks{Meta: &Meta{}}, 0
		switch {
		case len(full.Tellings) == 0:
			return nil
		case tx.Shard() != firstShard && !tx.CanSend(firstShard):
			// Work goes on where the first shard cannot be reached for long, and what
			// waits for it is bounded.
			tx.DropWebhookEvents(len(full.Tellings))
			return nil
		}
		return send(tx, firstShard, full)
	}
	for seq, e := range tx.Events() {
		subs := s.of[e.Type]
		// What an event says costs more than to see that nobody listens to its queue. Of
		// a batch only that tells which queue it is told in.
		covered := func(sub subscription) bool { return sub.covers(e.Queue) }
		if len(subs) == 0 || e.Type != state.EventType_EVENT_BATCH_COMPLETED && !slices.ContainsFunc(subs, covered) {
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
			if len(o.Tellings) == job.MaxTellings || bytes+len(body) > maxTellingBytes {
				if err := flush(); err != nil {
					return err
				}
			}
			id := tx.NewID(e.Queue)
			o.Meta.Ids = append(o.Meta.Ids, id[:])
			o.Tellings = append(o.Tellings, &Telling{Webhook: sub.webhook.Name, Event: said.Type, Body: body, JobId: slices.Clone(e.JobId)})
			bytes += len(body)
		}
	}
	return flush()
}

// maxTellingBytes is how much one TellWebhooks says.
const maxTellingBytes = 1 << 20
