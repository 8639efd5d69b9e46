package sim

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/dataplane/state/event"
)

// toldOf counts the causes of deliveries, and the deliveries that were purged. The fields changes, asked and
// forgotten come from the shard's answers alone.
type toldOf struct {
	changes   uint64          // changes of alerts
	deaf      uint64          // changes of alerts of which no webhook was notified
	events    uint64          // notifications of events that webhooks asked for
	disabled  uint64          // disabled webhooks
	asked     map[string]bool // deliveries that a client queued; a set, because an answer may be given twice
	again     uint64          // queued deliveries that had been purged when their request was repeated
	forgotten uint64
}

func (m *model) setAlerts(o *op.SetAlerts) outcome {
	result := &op.SetAlertsResult{}
	for i, c := range o.GetChanges() {
		rule := m.ruleOf(c.GetRuleId())
		if rule == nil || rule.GetVersion() != c.GetRuleVersion() || m.alerts[string(c.GetRuleId())].GetFiring() == c.GetFiring() {
			continue
		}
		m.alerts[string(c.GetRuleId())] = &state.Alert{
			Id: rule.GetId(), Name: rule.GetName(), Firing: c.GetFiring(), SinceNs: m.clockNs, Value: c.GetValue(),
		}
		result.Changed++
		event := "alert_resolved"
		if c.GetFiring() {
			event = "alert_fired"
		}
		// A rule notifies the webhook that it names, whatever events the webhook asks for.
		if hook := m.hookNamed(rule.GetAlertRule().GetNotify()); hook == nil || hook.Webhook.GetDisabled() {
			m.told.deaf++
			continue
		}
		m.deliverLater(o.GetMeta().GetIds()[i], rule.GetAlertRule().GetNotify(), event, c.GetBody().GetData())
	}
	return outcome{result: result}
}

func (m *model) ruleOf(id []byte) *state.Resource {
	for _, r := range m.declaredOf(state.ResourceKind_RESOURCE_KIND_ALERT_RULE) {
		if string(r.GetId()) == string(id) {
			return r
		}
	}
	return nil
}

// hookNamed returns the declaration of a webhook, or nil.
func (m *model) hookNamed(name string) *state.Resource {
	return m.resources[modelName{state.ResourceKind_RESOURCE_KIND_WEBHOOK, name}]
}

// listens reports whether a webhook wants an event.
func (m *model) listens(hook *state.Resource, event string) bool {
	if hook == nil || hook.Webhook.GetDisabled() {
		return false
	}
	asked := hook.Webhook.GetEvents()
	if len(asked) == 0 {
		asked = []string{"alert_fired", "alert_resolved", "test", "webhook_disabled"}
	}
	return slices.Contains(asked, event) || slices.Contains(asked, "*")
}

// deliverLater queues a delivery. The model cannot know the id of a delivery that the state creates by
// itself, so it keeps such a delivery by number until it learns the id.
func (m *model) deliverLater(id []byte, webhook, event string, body []byte) *state.Delivery {
	if known := m.deliveries[string(id)]; id != nil && known != nil {
		return known
	}
	m.queued++
	d := &state.Delivery{Id: id, Webhook: webhook, Event: event, Body: body, CreatedNs: m.clockNs, DueNs: m.clockNs, Number: m.queued}
	if id != nil {
		m.deliveries[string(id)] = d
	} else {
		m.nameless[d.Number] = d
	}
	m.reached(webhook).Waiting++
	return d
}

// reached returns the record of a webhook's attempts. The caller may change it.
func (m *model) reached(webhook string) *state.Attempted {
	id := string(m.hookNamed(webhook).GetId())
	if m.attempted[id] == nil {
		m.attempted[id] = &state.Attempted{}
	}
	return m.attempted[id]
}

// tell queues the notifications for the events of an entry, in the order of the feed.
func (sh *shard) tell() error {
	v := sh.steady.store.Snapshot()
	defer v.Close()
	// Collect the events that webhooks want.
	var all []telling
	for item, err := range v.Feed(max(sh.told, v.Head().GetFeedFirstSeq())) {
		if err != nil {
			return err
		}
		for i, e := range item.Entry.Events {
			word, ok := event.Word(e.Type)
			if seq := item.FirstSeq + uint64(i); seq < sh.told || !ok || strings.HasPrefix(word, "alert_") {
				continue
			}
			queue := e.Queue
			if e.Type == state.EventType_EVENT_BATCH_COMPLETED { // the model does not trust the feed's queue
				b, err := v.Batch([16]byte(e.RecordId))
				if err != nil {
					return err
				}
				queue = cmp.Or(b.GetCallbackQueue(), b.GetQueue())
			}
			for _, hook := range sh.model.declaredOf(state.ResourceKind_RESOURCE_KIND_WEBHOOK) {
				if queues := hook.Webhook.GetQueues(); sh.model.listens(hook, word) && (len(queues) == 0 || slices.Contains(queues, queue)) {
					all = append(all, telling{hook.Name, word, e.JobId})
				}
			}
		}
	}
	sh.told = v.Head().GetFeedNextSeq()
	if len(all) > 0 {
		sh.tellHome(all)
	}
	return sh.name(v)
}

// telling is an event for one webhook.
type telling struct {
	webhook, event string
	job            []byte
}

// tellHome queues deliveries on the home shard, which sends them.
func (sh *shard) tellHome(all []telling) {
	sh.model.send(0, traveller{arrive: func(to *model) {
		for _, t := range all {
			if to.listens(to.hookNamed(t.webhook), t.event) {
				to.deliverLater(nil, t.webhook, t.event, nil).JobId = t.job
				to.told.events++
			}
		}
	}})
}

// name learns the ids of deliveries that the state has created, and checks their bodies.
func (sh *shard) name(v *state.Snapshot) error {
	m := sh.model
	if len(m.nameless) == 0 {
		return nil
	}
	for d, err := range v.Deliveries() {
		if err != nil {
			return err
		}
		known := m.nameless[d.Number]
		if known == nil {
			continue
		}
		var said api.Event
		if err := json.Unmarshal(d.Body, &said); err != nil || said.Type != d.Event {
			return fmt.Errorf("a webhook is told of %s by %q: %w", d.Event, d.Body, err)
		}
		known.Id, known.Body = d.Id, d.Body
		m.deliveries[string(d.Id)] = known
		delete(m.nameless, d.Number)
	}
	return nil
}

func (m *model) queueDelivery(o *op.QueueDelivery) outcome {
	hook := m.hookNamed(o.GetWebhook())
	switch {
	case hook == nil:
		return outcome{refused: api.NotFound}
	case hook.GetWebhook().GetDisabled():
		return outcome{refused: api.Conflict}
	}
	id := o.GetMeta().GetIds()[0]
	if m.told.asked[string(id)] && m.deliveries[string(id)] == nil {
		m.told.again++
	}
	m.deliverLater(id, o.GetWebhook(), o.GetEvent(), o.GetBody())
	return outcome{result: &op.QueueDeliveryResult{Id: id}}
}

func (m *model) reportDeliveries(o *op.ReportDeliveries) outcome {
	for _, r := range o.GetReports() {
		d := m.deliveries[string(r.GetId())]
		if d == nil || d.DueNs == 0 || r.GetAttempt() != d.Attempts+1 {
			continue
		}
		d.Attempts++
		d.LastStatus, d.LastError, d.LastAttemptNs, d.Delivered = r.GetStatus(), r.GetError(), m.clockNs, r.GetDelivered()
		if d.DueNs = r.GetRetryNs(); d.DueNs == 0 {
			d.PurgeNs = m.clockNs + 7*24*3600*1e9
		}
		if hook := m.hookNamed(d.Webhook); hook != nil {
			m.reportTo(hook, r)
		}
	}
	return outcome{result: &op.ReportDeliveriesResult{}}
}

// reportTo records an attempt in its webhook's record. It disables the webhook when ten deliveries in a row
// were given up, over an hour or more.
func (m *model) reportTo(hook *state.Resource, r *op.DeliveryReport) {
	a := m.reached(hook.GetName())
	a.Status, a.Error, a.AtNs = r.GetStatus(), r.GetError(), m.clockNs
	if r.GetRetryNs() != 0 {
		return
	}
	a.Waiting -= min(a.Waiting, 1) // a delivery for an earlier webhook of that name may be among them
	if r.GetDelivered() {
		a.GivenUp, a.FailingSinceNs = 0, 0
		return
	}
	if hook.Webhook.GetDisabled() {
		return
	}
	if a.GivenUp++; a.GivenUp == 1 {
		a.FailingSinceNs = m.clockNs
	}
	if a.GivenUp >= 10 && m.clockNs-a.FailingSinceNs >= 3600e9 {
		off := proto.Clone(hook).(*state.Resource)
		off.Version, off.Webhook.Disabled = off.Version+1, true
		m.toEveryShard(off.Shards, func(to *model) { to.declare(off, nil) })
		m.told.disabled++
	}
}

func (m *model) purgeDeliveries(o *op.PurgeDeliveries) outcome {
	result := &op.PurgeDeliveriesResult{}
	for _, id := range o.GetDeliveryIds() {
		if d := m.deliveries[string(id)]; d != nil && d.DueNs == 0 && d.PurgeNs <= m.clockNs {
			delete(m.deliveries, string(id))
			result.Purged++
		}
	}
	return outcome{result: result}
}

// hearOfDeliveries counts a shard's answers.
func (t *toldOf) hearOfDeliveries(result any) {
	switch r := result.(type) {
	case *op.SetAlertsResult:
		t.changes += uint64(r.GetChanged())
	case *op.QueueDeliveryResult:
		t.asked[string(r.GetId())] = true
	case *op.PurgeDeliveriesResult:
		t.forgotten += uint64(r.GetPurged())
	}
}

// compareDeliveries compares deliveries, alerts and webhook records with the model's. It checks that each
// alert change for a webhook, each queued delivery and each event has led to one delivery.
func (sh *shard) compareDeliveries(v *state.Snapshot) error {
	m := sh.model
	var errs []error
	seen := uint64(0)
	for d, err := range v.Deliveries() {
		if err != nil {
			return err
		}
		seen++
		if want := m.deliveries[string(d.GetId())]; !proto.Equal(d, want) {
			errs = append(errs, fmt.Errorf("delivery %x is %v in the store, %v in the model", d.GetId(), d, want))
		}
	}
	if seen != uint64(len(m.deliveries)) || len(m.nameless) != 0 || seen != v.Head().GetDeliveryRecords() {
		errs = append(errs, fmt.Errorf("the store has %d deliveries and counts %d, the model has %d", seen, v.Head().GetDeliveryRecords(), len(m.deliveries)))
	}
	if t := m.told; t.changes-t.deaf+uint64(len(t.asked))+t.again+t.events != seen+t.forgotten {
		errs = append(errs, fmt.Errorf("there were %+v, and %d deliveries are there", t, seen))
	}
	if n := v.Head().GetAlertRecords(); n != uint64(len(m.alerts)) {
		errs = append(errs, fmt.Errorf("the store has %d alerts, the model %d", n, len(m.alerts)))
	}
	for _, r := range m.resources {
		id := [16]byte(r.GetId())
		alert, err := sh.steady.store.Alert(id)
		if want := m.alerts[string(id[:])]; err != nil || !proto.Equal(alert, want) {
			errs = append(errs, fmt.Errorf("alert %s is %v in the store, %v in the model (%w)", r.GetName(), alert, want, err))
		}
		last, err := sh.steady.store.Attempted(id)
		if want := m.attempted[string(id[:])]; err != nil || !proto.Equal(last, want) {
			errs = append(errs, fmt.Errorf("webhook %s was last reached %v in the store, %v in the model (%w)", r.GetName(), last, want, err))
		}
	}
	return errors.Join(errs...)
}

// sendDue returns the report of a sender whose deliveries all succeed.
func (sh *shard) sendDue(ids [][]byte) op.Op {
	o := &op.ReportDeliveries{Meta: duty()}
	for _, id := range ids {
		o.Reports = append(o.Reports, &op.DeliveryReport{Id: id, Attempt: sh.model.deliveries[string(id)].GetAttempts() + 1, Delivered: true, Status: 200})
	}
	return o
}

func (w *workload) webhook() *op.PutResource {
	h := &state.Webhook{Url: "https://hooks.example.invalid/" + fmt.Sprint(w.rng.IntN(9)), Disabled: w.chance(8), RetryLimit: uint32(w.rng.IntN(4))}
	if !w.chance(4) {
		h.Secret, h.SecretOverlapMs = fmt.Sprint("a secret of 16 bytes and more ", w.rng.IntN(2)), int64(w.rng.IntN(2))*3600e3
	}
	if !w.chance(4) {
		h.Events = []string{pick(w, []string{"*", "enqueued", "started", pick(w, op.WebhookEvents)})}
	}
	if w.chance(3) {
		h.Queues = []string{pick(w, w.queues)}
	}
	return &op.PutResource{Resource: &state.Resource{Kind: state.ResourceKind_RESOURCE_KIND_WEBHOOK, Name: w.oneOf(), Webhook: h}}
}

func (w *workload) alertRule() *op.PutResource {
	rule := &state.AlertRule{
		Label: "too many", When: state.AlertSubject_ALERT_SUBJECT_QUEUE_DEPTH, Target: pick(w, w.queues), Threshold: float64(w.rng.IntN(100)),
		Notify: w.someDeclared(state.ResourceKind_RESOURCE_KIND_WEBHOOK).GetName(),
	}
	return &op.PutResource{Resource: &state.Resource{Kind: state.ResourceKind_RESOURCE_KIND_ALERT_RULE, Name: w.oneOf(), AlertRule: rule}}
}

func (w *workload) setAlerts() op.Op {
	if w.sh.number != 0 {
		return w.scoreJob()
	}
	o := &op.SetAlerts{Meta: duty()}
	rules := w.m.declaredOf(state.ResourceKind_RESOURCE_KIND_ALERT_RULE)
	if len(rules) == 0 || w.chance(15) {
		rules = append(rules, w.someDeclared(state.ResourceKind_RESOURCE_KIND_UNSPECIFIED))
	}
	for _, r := range rules {
		if len(o.Changes) > 0 && w.chance(2) {
			continue
		}
		c := &op.AlertChange{RuleId: r.GetId(), RuleVersion: r.GetVersion(), Firing: w.chance(2), Value: float64(w.rng.IntN(1000))}
		if w.chance(8) {
			c.RuleVersion++
		}
		c.Body = &job.Blob{Data: fmt.Appendf(nil, `{"rule":%q,"firing":%v}`, r.GetName(), c.Firing)}
		o.Changes = append(o.Changes, c)
		o.Meta.Ids = append(o.Meta.Ids, w.bytes(16))
	}
	return o
}

func (w *workload) queueDelivery() op.Op {
	if w.sh.number != 0 {
		return w.scoreJob()
	}
	o := &op.QueueDelivery{Meta: w.meta(), Event: "test", Body: []byte(`{"event":"test"}`)}
	o.Webhook = w.someDeclared(state.ResourceKind_RESOURCE_KIND_WEBHOOK).GetName()
	o.Meta.Ids = [][]byte{w.bytes(16)}
	return o
}

// someDeliveries draws the ids of deliveries, and now and then one that does not exist.
func (w *workload) someDeliveries(n int) (ids [][]byte) {
	for id := range w.m.deliveries {
		ids = append(ids, []byte(id))
	}
	slices.SortFunc(ids, slices.Compare)
	w.rng.Shuffle(len(ids), func(i, k int) { ids[i], ids[k] = ids[k], ids[i] })
	ids = ids[:min(len(ids), n)]
	if len(ids) == 0 || w.chance(15) {
		ids = append(ids, w.bytes(16))
	}
	return ids
}

func (w *workload) reportDeliveries() op.Op {
	o := &op.ReportDeliveries{Meta: duty()}
	for _, id := range w.someDeliveries(4) {
		r := &op.DeliveryReport{Id: id, Attempt: w.m.deliveries[string(id)].GetAttempts() + 1, Status: 200, Delivered: true}
		if !w.chance(3) {
			r.Status, r.Delivered, r.Error = 500, false, "answered 500"
			if !w.chance(3) {
				r.RetryNs = w.m.clockNs + w.rng.Int64N(600e9)
			}
		}
		if w.chance(8) {
			r.Attempt = uint32(1 + w.rng.IntN(4))
		}
		o.Reports = append(o.Reports, r)
	}
	return o
}

func (w *workload) purgeDeliveries() op.Op {
	return &op.PurgeDeliveries{Meta: duty(), DeliveryIds: w.someDeliveries(8)}
}
