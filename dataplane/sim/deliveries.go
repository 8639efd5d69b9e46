package sim

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// toldOf counts what webhooks were told of and what has become of that, from what the
// shard answered alone.
type toldOf struct {
	changes   uint64          // of alerts
	deaf      uint64          // of those, which a webhook did not want to hear of
	twice     uint64          // of those, told by the delivery that the op had queued when it came first
	asked     map[string]bool // deliveries that somebody asked for: an answer may be given twice
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
		hook := m.resources[modelName{state.ResourceKind_RESOURCE_KIND_WEBHOOK, rule.GetAlertRule().GetNotify()}].GetWebhook()
		if hook == nil || hook.GetDisabled() || len(hook.GetEvents()) > 0 && !slices.Contains(hook.GetEvents(), event) {
			m.told.deaf++
			continue
		}
		if m.deliveries[string(o.GetMeta().GetIds()[i])] != nil {
			m.told.twice++
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

func (m *model) deliverLater(id []byte, webhook, event string, body []byte) {
	m.deliveries[string(id)] = &state.Delivery{Id: id, Webhook: webhook, Event: event, Body: body, CreatedNs: m.clockNs, DueNs: m.clockNs}
}

func (m *model) queueDelivery(o *op.QueueDelivery) outcome {
	hook := m.resources[modelName{state.ResourceKind_RESOURCE_KIND_WEBHOOK, o.GetWebhook()}]
	switch {
	case hook == nil:
		return outcome{refused: api.NotFound}
	case hook.GetWebhook().GetDisabled():
		return outcome{refused: api.Conflict}
	}
	id := o.GetMeta().GetIds()[0]
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
		if hook := m.resources[modelName{state.ResourceKind_RESOURCE_KIND_WEBHOOK, d.Webhook}]; hook != nil {
			m.attempted[string(hook.GetId())] = &state.Attempted{Status: r.GetStatus(), Error: r.GetError(), AtNs: m.clockNs}
		}
	}
	return outcome{result: &op.ReportDeliveriesResult{}}
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

// hearOfDeliveries counts what a shard has answered.
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

// compareDeliveries holds what webhooks are sent against the model, and wants one
// delivery of each change of an alert that somebody wanted to hear of.
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
	if seen != uint64(len(m.deliveries)) || seen != v.Head().GetDeliveryRecords() {
		errs = append(errs, fmt.Errorf("the store has %d deliveries and counts %d, the model has %d", seen, v.Head().GetDeliveryRecords(), len(m.deliveries)))
	}
	if t := m.told; t.changes-t.deaf-t.twice+uint64(len(t.asked)) != seen+t.forgotten {
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

// sendDue is what the sender of deliveries reports that finds everybody at home.
func (sh *shard) sendDue(ids [][]byte) op.Op {
	o := &op.ReportDeliveries{Meta: duty()}
	for _, id := range ids {
		o.Reports = append(o.Reports, &op.DeliveryReport{Id: id, Attempt: sh.model.deliveries[string(id)].GetAttempts() + 1, Delivered: true, Status: 200})
	}
	return o
}

// What a workload draws of these.

func (w *workload) webhook() *op.PutResource {
	h := &state.Webhook{Url: "https://hooks.example.invalid/" + fmt.Sprint(w.rng.IntN(9)), Disabled: w.chance(8), RetryLimit: uint32(w.rng.IntN(4))}
	if !w.chance(4) {
		h.Secret = "a secret of 16 bytes and more"
	}
	if w.chance(4) {
		h.Events = []string{pick(w, op.WebhookEvents)}
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

// someDeliveries draws deliveries, and now and then one that there is not.
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
