package op_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

const testSecret = "0123456789abcdef"

func init() {
	builders["put-webhook"] = (*story).putWebhook
	builders["put-alert"] = (*story).putAlert
	builders["delete-webhook"] = func(s *story, items []item) op.Op {
		return &op.DeleteResource{Meta: s.meta(items[0]), Kind: state.ResourceKind_RESOURCE_KIND_WEBHOOK, Name: items[0].words[0], Shards: 1}
	}
	builders["delete-alert"] = func(s *story, items []item) op.Op {
		return &op.DeleteResource{Meta: s.meta(items[0]), Kind: state.ResourceKind_RESOURCE_KIND_ALERT_RULE, Name: items[0].words[0], Shards: 1}
	}
	builders["set-alerts"] = (*story).setAlerts
	builders["report-deliveries"] = (*story).reportDeliveries
	builders["purge-deliveries"] = func(s *story, items []item) op.Op {
		return &op.PurgeDeliveries{Meta: s.meta(items[0]), DeliveryIds: s.jobIDs(items[0])}
	}
	builders["queue-delivery"] = func(s *story, items []item) op.Op {
		i := items[0]
		meta := s.meta(i)
		meta.Ids = [][]byte{s.deliveryID(i.text("as", "d"))}
		return &op.QueueDelivery{Meta: meta, Webhook: i.words[0], Event: i.text("event", "test"), Body: []byte(repeated(i.text("body", "{}")))}
	}

	moreValid = append(moreValid,
		func(w *world) op.Op {
			id := w.newID("")
			return &op.SetAlerts{Meta: &op.Meta{Ids: [][]byte{id[:]}}, Changes: []*op.AlertChange{{RuleId: id[:], Body: &job.Blob{}}}}
		},
		func(w *world) op.Op {
			id := w.newID("")
			return &op.ReportDeliveries{Reports: []*op.DeliveryReport{{Id: id[:], Attempt: 1}}}
		},
		func(w *world) op.Op { id := w.newID(""); return &op.PurgeDeliveries{DeliveryIds: [][]byte{id[:]}} },
		func(w *world) op.Op {
			id := w.newID("")
			return &op.QueueDelivery{Meta: &op.Meta{Ids: [][]byte{id[:]}}, Webhook: "h", Event: "test", Body: []byte("{}")}
		},
	)
	prepare["report-deliveries"] = func(w *world) op.Op {
		w.webhook("h")
		return &op.ReportDeliveries{Reports: []*op.DeliveryReport{{Id: w.delivery("h"), Attempt: 1, Status: 500, Error: "e", RetryNs: w.clockNs + 5}}}
	}
	prepare["purge-deliveries"] = func(w *world) op.Op {
		w.webhook("h")
		id := w.delivery("h")
		w.apply(&op.ReportDeliveries{Reports: []*op.DeliveryReport{{Id: id, Attempt: 1, Status: 200, Delivered: true}}})
		w.clockNs += int64(job.DeliveryKept)
		return &op.PurgeDeliveries{DeliveryIds: [][]byte{id}}
	}
}

// webhook declares a webhook.
func (w *world) webhook(name string) {
	w.accepted(w.putWebhook(name, &state.Webhook{Url: "https://example.com/hook", Secret: testSecret, RetryLimit: 3}))
}

func (w *world) putWebhook(name string, h *state.Webhook) *op.PutResource {
	id := w.newID("")
	return &op.PutResource{Meta: &op.Meta{Ids: [][]byte{id[:]}}, Resource: &state.Resource{
		Kind: state.ResourceKind_RESOURCE_KIND_WEBHOOK, Name: name, Shards: 1, Webhook: h,
	}}
}

// alertRule declares a rule for the pending jobs of all queues.
func (w *world) alertRule(name, notify string) *state.Resource {
	return w.accepted(w.putAlertRule(name, &state.AlertRule{
		Label: name, When: state.AlertSubject_ALERT_SUBJECT_QUEUE_DEPTH, Threshold: 1, Notify: notify,
	})).(*op.PutResourceResult).Resource
}

func (w *world) putAlertRule(name string, r *state.AlertRule) *op.PutResource {
	id := w.newID("")
	return &op.PutResource{Meta: &op.Meta{Ids: [][]byte{id[:]}}, Resource: &state.Resource{
		Kind: state.ResourceKind_RESOURCE_KIND_ALERT_RULE, Name: name, Shards: 1, AlertRule: r,
	}}
}

// delivery queues a delivery and returns its id.
func (w *world) delivery(webhook string) []byte {
	id := w.newID("")
	return w.accepted(&op.QueueDelivery{Meta: &op.Meta{Ids: [][]byte{id[:]}}, Webhook: webhook, Event: "test", Body: []byte("{}")}).(*op.QueueDeliveryResult).Id
}

// deliveryID returns the id of a delivery in the story.
func (s *story) deliveryID(name string) []byte { return s.proof(item{words: []string{name}}).Id }

func (s *story) putWebhook(items []item) op.Op {
	i := items[0]
	o := s.world.putWebhook(i.words[0], &state.Webhook{
		Url: repeated(i.text("url", "https://example.com/hook")), Secret: repeated(i.text("secret", testSecret)), Disabled: i.has("disabled"), RetryLimit: uint32(i.number(s.t, "retries", 3)),
		Events: strings.FieldsFunc(i.text("events", ""), func(r rune) bool { return r == ',' }),
	})
	o.Create, o.IfVersion = i.has("create"), i.number(s.t, "if", 0)
	return o
}

func (s *story) putAlert(items []item) op.Op {
	i := items[0]
	when, _ := state.ParseAlertSubject(i.text("when", "queue_depth"))
	comparison, _ := state.ParseComparison(i.text("op", ">"))
	threshold := float64(i.number(s.t, "threshold", 10))
	if i.has("endless") {
		threshold = math.Inf(1)
	}
	o := s.world.putAlertRule(i.words[0], &state.AlertRule{
		Label: repeated(i.text("label", i.words[0])), When: when, Target: i.text("target", ""), Comparison: comparison,
		Threshold: threshold, ForMs: i.millis(s.t, "for", 0), Notify: i.text("notify", ""),
	})
	o.Create = i.has("create")
	return o
}

// setAlerts reads for each rule "firing" or nothing, value=, version=, and the name of its delivery.
func (s *story) setAlerts(items []item) op.Op {
	o := &op.SetAlerts{Meta: s.meta(items[0])}
	for _, i := range items {
		rule := s.store.ResourceIndex().Resource(state.ResourceKind_RESOURCE_KIND_ALERT_RULE, i.words[0])
		c := &op.AlertChange{RuleId: rule.GetId(), RuleVersion: i.number(s.t, "version", 1), Firing: i.has("firing"), Value: float64(i.number(s.t, "value", 0)),
			Body: &job.Blob{Data: []byte(i.text("body", "{}"))}}
		if rule == nil { // one that was deleted, or never was
			c.RuleId = s.deliveryID("rule-" + i.words[0])
		}
		o.Meta.Ids = append(o.Meta.Ids, s.deliveryID(i.text("as", "d")))
		o.Changes = append(o.Changes, c)
	}
	return o
}

func (s *story) reportDeliveries(items []item) op.Op {
	o := &op.ReportDeliveries{Meta: s.meta(items[0])}
	for _, i := range items {
		o.Reports = append(o.Reports, &op.DeliveryReport{
			Id: s.deliveryID(i.words[0]), Attempt: uint32(i.number(s.t, "attempt", 1)), Delivered: i.has("delivered"),
			Status: uint32(i.number(s.t, "status", 0)), Error: repeated(i.text("error", "")), RetryNs: s.at(i, "retry"),
		})
	}
	return o
}

// printDeliveries prints all deliveries, their webhooks and the alerts.
func (s *story) printDeliveries() {
	s.snapshot(func(v *state.Snapshot) {
		for d, err := range v.Deliveries() {
			if err != nil {
				s.t.Fatal(err)
			}
			fmt.Fprintf(&s.out, "delivery %s to %s: %s %s attempts %d due %s status %d error %q delivered %v purge %s\n", job.ID(d.Id), d.Webhook, d.Event, d.Body,
				d.Attempts, s.moment(d.DueNs), d.LastStatus, d.LastError, d.Delivered, s.moment(d.PurgeNs))
		}
	})
	for _, r := range s.store.ResourceIndex().Resources(state.ResourceKind_RESOURCE_KIND_WEBHOOK) {
		a, err := s.store.Attempted([16]byte(r.Id))
		if err != nil {
			s.t.Fatal(err)
		}
		fmt.Fprintf(&s.out, "webhook %s: last %d %q at %s\n", r.Name, a.GetStatus(), a.GetError(), s.moment(a.GetAtNs()))
	}
	for _, r := range s.store.ResourceIndex().Resources(state.ResourceKind_RESOURCE_KIND_ALERT_RULE) {
		a, err := s.store.Alert([16]byte(r.Id))
		if err != nil {
			s.t.Fatal(err)
		}
		fmt.Fprintf(&s.out, "alert %s: firing %v value %v since %s\n", r.Name, a.GetFiring(), a.GetValue(), s.moment(a.GetSinceNs()))
	}
}

// The number of kept deliveries is limited, and ended deliveries make room for new ones.
func TestDeliveriesAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.webhook("h")
	var ids [][]byte
	for len(ids) < job.MaxDeliveries {
		name := fmt.Sprint("h", len(ids))
		w.webhook(name)
		ops := make([]op.Op, job.MaxWebhookWaiting)
		for i := range ops {
			id := w.newID("")
			ids = append(ids, id[:])
			ops[i] = &op.QueueDelivery{Meta: &op.Meta{Ids: [][]byte{id[:]}}, Webhook: name, Event: "test", Body: []byte("{}")}
		}
		for _, result := range w.apply(ops...) {
			if err, refused := result.(error); refused {
				t.Fatal(err)
			}
		}
	}
	id := w.newID("")
	more := &op.QueueDelivery{Meta: &op.Meta{Ids: [][]byte{id[:]}}, Webhook: "h", Event: "test", Body: []byte("{}")}
	if err, _ := w.apply(more)[0].(error); api.CodeOf(err) != api.Conflict {
		t.Fatalf("one too many: %v", err)
	}
	rule := w.alertRule("a", "h")
	fired := one[*op.SetAlertsResult](w, &op.SetAlerts{Meta: more.Meta, Changes: []*op.AlertChange{{RuleId: rule.Id, RuleVersion: 1, Firing: true, Body: &job.Blob{}}}})
	if fired.Changed != 1 || fired.Dropped != 1 {
		t.Errorf("an alert that nobody can be told of: %v", fired)
	}
	report := &op.ReportDeliveries{}
	for _, id := range ids[:job.MaxDutyItems] {
		report.Reports = append(report.Reports, &op.DeliveryReport{Id: id, Attempt: 1, Status: 200, Delivered: true})
	}
	w.accepted(report)
	w.clockNs += int64(time.Second)
	purge := &op.PurgeDeliveries{DeliveryIds: append(ids[:10:10], ids[job.MaxDutyItems])}
	if purged := one[*op.PurgeDeliveriesResult](w, purge).Purged; purged != 10 {
		t.Errorf("%d were forgotten, of 10 that are over and one that is not", purged)
	}
	w.accepted(more)
	if n := w.store.Head().GetDeliveryRecords(); n != job.MaxDeliveries-9 {
		t.Errorf("%d are kept", n)
	}
}

// accepted returns the result of an op, which must not be refused.
func (w *world) accepted(o op.Op) any {
	w.t.Helper()
	result := w.apply(o)[0]
	if err, refused := result.(error); refused {
		w.t.Fatal(err)
	}
	return result
}
