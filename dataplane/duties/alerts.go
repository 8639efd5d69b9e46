package duties

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// alertsEvery is how often alert rules are looked at, while there are any.
const alertsEvery = 2 * time.Second

// alerts is what a leader remembers of the alert rules. How long a condition has held
// is known to nobody else: it begins anew with each leader.
type alerts struct {
	next  int64 // when the rules are looked at again
	book  *state.ResourceIndex
	held  map[job.ID]holding
	blind int // looks in a row at which something could not be measured

	dropped atomic.Uint64
}

// holding is since when the condition of a rule holds that does not fire yet.
type holding struct {
	version uint64 // of the rule
	sinceNs int64
}

// forget begins anew.
func (a *alerts) forget() { a.next, a.book, a.held, a.blind = 0, nil, map[job.ID]holding{}, 0 }

// AlertsDropped is how many alerts this leader could tell nobody of, because as many
// deliveries are kept as may be.
func (d *Duties) AlertsDropped() uint64 { return d.alerts.dropped.Load() }

// watchAlerts looks at the alert rules and proposes what has changed, so that a
// namespace in which nothing does has nothing logged.
func watchAlerts(ctx context.Context, d *Duties) (int64, error) {
	book := d.cfg.Store.ResourceIndex()
	rules := book.Resources(state.ResourceKind_RESOURCE_KIND_ALERT_RULE)
	if d.cfg.Measure == nil || len(rules) == 0 {
		return never, nil
	}
	nowNs := d.cfg.NowNs()
	if nowNs < d.alerts.next && book == d.alerts.book {
		return d.alerts.next, nil
	}
	o := &op.SetAlerts{Meta: &op.Meta{Principal: "duty"}}
	held := map[job.ID]holding{}
	var failed error
	for _, r := range rules {
		value, err := d.cfg.Measure(ctx, r.AlertRule)
		if err == nil && (math.IsNaN(value) || math.IsInf(value, 0)) {
			err = fmt.Errorf("measured %v", value)
		}
		if err != nil {
			failed = fmt.Errorf("alert rule %s: %w", r.Name, err)
			if h, ok := d.alerts.held[job.ID(r.Id)]; ok {
				held[job.ID(r.Id)] = h
			}
			continue
		}
		firing, err := d.fires(r, value, nowNs, held)
		if err != nil {
			return 0, err
		}
		if firing == nil {
			continue
		}
		id := d.cfg.NewID()
		o.Meta.Ids = append(o.Meta.Ids, id[:])
		o.Changes = append(o.Changes, &op.AlertChange{
			RuleId: r.Id, RuleVersion: r.Version, Firing: *firing, Value: value, Body: AlertBody(r, *firing, value, nowNs),
		})
	}
	d.alerts.held = held
	d.blindTo(failed)
	if len(o.Changes) > 0 {
		if err := d.setAlerts(ctx, o); err != nil {
			return 0, err // it is looked at again, and held on to since when
		}
	}
	d.alerts.book, d.alerts.next = book, nowNs+int64(alertsEvery)
	return d.alerts.next, nil
}

// fires says whether a rule is to fire from now on, or not any more; nil where
// nothing changes. held gets since when its condition holds.
func (d *Duties) fires(r *state.Resource, value float64, nowNs int64, held map[job.ID]holding) (*bool, error) {
	id := job.ID(r.Id)
	a, err := d.cfg.Store.Alert(id)
	if err != nil {
		return nil, fmt.Errorf("read the state of alert rule %s: %w", r.Name, err)
	}
	holds := r.AlertRule.Holds(value)
	if holds == a.GetFiring() {
		return nil, nil
	}
	if holds {
		h, ok := d.alerts.held[id]
		if !ok || h.version != r.Version {
			h = holding{r.Version, nowNs}
		}
		held[id] = h
		if nowNs-h.sinceNs < r.AlertRule.ForMs*int64(time.Millisecond) {
			return nil, nil
		}
	}
	return &holds, nil
}

// setAlerts proposes what has changed.
func (d *Duties) setAlerts(ctx context.Context, o *op.SetAlerts) error {
	result, err := d.cfg.SetAlerts(ctx, o)
	if err != nil {
		return err
	}
	if n := result.GetDropped(); n > 0 {
		d.alerts.dropped.Add(uint64(n))
		d.cfg.Logger.Error("alerts have changed and nobody is told: as many deliveries wait for their webhooks as may be; see to those that cannot be reached",
			"alerts", n, "deliveries", job.MaxDeliveries)
	}
	return nil
}

// blindAfter is how many looks in a row have to fail before it is said: while a
// namespace is opened, some do.
const blindAfter = 3

// blindTo logs that something cannot be measured, once until it can.
func (d *Duties) blindTo(err error) {
	if err == nil {
		d.alerts.blind = 0
		return
	}
	if d.alerts.blind++; d.alerts.blind == blindAfter {
		d.cfg.Logger.Warn("what an alert rule watches cannot be measured; its state stays", "error", err)
	}
}

// AlertWatch is what an alert rule watches, as clients and receivers see it.
func AlertWatch(r *state.Resource) api.AlertWatch {
	rule := r.GetAlertRule()
	w := api.AlertWatch{
		ID: r.GetName(), Name: rule.GetLabel(), When: rule.GetWhen().Word(), Op: rule.GetComparison().Word(),
		Threshold: rule.GetThreshold(), For: api.DurationOf(time.Duration(rule.GetForMs()) * time.Millisecond),
	}
	if rule.GetWhen() == state.AlertSubject_ALERT_SUBJECT_BUDGET {
		w.Target = rule.GetTarget()
	} else {
		w.Queue = rule.GetTarget()
	}
	return w
}

// AlertBody is what a webhook is sent of an alert.
func AlertBody(r *state.Resource, firing bool, value float64, nowNs int64) *job.Blob {
	e := api.AlertEvent{
		Event: op.EventAlertResolved, Rule: AlertWatch(r), Value: value, Threshold: r.GetAlertRule().GetThreshold(),
		Firing: firing, At: api.TimeOf(time.Unix(0, nowNs)),
	}
	if firing {
		e.Event = op.EventAlertFired
	}
	data, err := json.Marshal(e)
	if err != nil { // only of what is no number, which is not let this far
		data = []byte("{}")
	}
	return &job.Blob{Data: data}
}

// purgeDeliveries has deliveries forgotten that are long over, and while there are
// many also those that are over since not so long.
func purgeDeliveries(ctx context.Context, d *Duties) (int64, error) {
	for {
		nowNs := d.cfg.NowNs()
		until := nowNs
		if d.cfg.Store.Head().GetDeliveryRecords() > op.DeliveriesAim {
			until = never
		}
		ids, err := d.cfg.Store.Due(state.TimerDelivered, until, job.MaxDutyItems)
		if err != nil {
			return 0, fmt.Errorf("read the timers of deliveries: %w", err)
		}
		if len(ids) == 0 {
			return d.orNextTimer(state.TimerDelivered, nowNs, never)
		}
		due, _, _ := allDue(d, ids, nowNs)
		o := &op.PurgeDeliveries{Meta: &op.Meta{Principal: "duty"}, DeliveryIds: due}
		if err := d.cfg.Propose(ctx, o); err != nil {
			return 0, err
		}
	}
}
