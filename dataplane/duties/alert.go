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

// alertsEvery is the time between two evaluations of the alert rules, while there are any.
const alertsEvery = 2 * time.Second

// alerts is the leader's memory of the alert rules. A new leader measures anew how long a condition has held,
// because only the leader's memory has that time.
type alerts struct {
	next      int64 // time of the next evaluation
	resources *state.ResourceIndex
	held      map[job.ID]holding
	blind     int // evaluations in a row that could not measure every rule

	dropped atomic.Uint64
}

// holding records since when a rule's condition holds, for a rule that does not fire yet.
type holding struct {
	version uint64 // of the rule
	sinceNs int64
}

// forget discards everything, for a new term.
func (a *alerts) forget() { a.next, a.resources, a.held, a.blind = 0, nil, map[job.ID]holding{}, 0 }

// AlertsDropped returns the number of alert changes that this node could not deliver while it led, because
// the webhook's waiting deliveries, or all kept deliveries, were at their limit.
func (d *Duties) AlertsDropped() uint64 { return d.alerts.dropped.Load() }

// watchAlerts evaluates the alert rules and proposes only the changes, so that a namespace in which nothing
// changes adds nothing to the log.
func watchAlerts(ctx context.Context, d *Duties) (int64, error) {
	resources := d.cfg.Store.ResourceIndex()
	rules := resources.Resources(state.ResourceKind_RESOURCE_KIND_ALERT_RULE)
	if d.cfg.Measure == nil || len(rules) == 0 {
		return never, nil
	}
	nowNs := d.cfg.NowNs()
	if nowNs < d.alerts.next && resources == d.alerts.resources {
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
			return 0, err // the next pass evaluates again, and held keeps the start times
		}
	}
	d.alerts.resources, d.alerts.next = resources, nowNs+int64(alertsEvery)
	return d.alerts.next, nil
}

// fires reports whether a rule starts or stops firing now; nil means no change. It records in held since when
// the rule's condition holds.
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

// setAlerts proposes the changes and counts those that could not be delivered.
func (d *Duties) setAlerts(ctx context.Context, o *op.SetAlerts) error {
	result, err := d.cfg.SetAlerts(ctx, o)
	if err != nil {
		return err
	}
	if n := result.GetDropped(); n > 0 {
		d.alerts.dropped.Add(uint64(n))
		d.cfg.Logger.Error("alert notifications dropped: the webhook delivery queue is full; repair or disable the unreachable webhooks",
			"alerts", n, "deliveries", job.MaxDeliveries)
	}
	return nil
}

// blindAfter is the number of failed evaluations in a row before blindTo logs, because some fail while a
// namespace is opened.
const blindAfter = 3

// blindTo logs that something cannot be measured, and logs it again only after it could be measured.
func (d *Duties) blindTo(err error) {
	if err == nil {
		d.alerts.blind = 0
		return
	}
	if d.alerts.blind++; d.alerts.blind == blindAfter {
		d.cfg.Logger.Warn("an alert rule cannot be measured; the rule keeps its state", "error", err)
	}
}

// AlertWatch returns the condition of an alert rule, as clients and receivers see it.
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

// AlertBody returns the body of the webhook delivery for an alert.
func AlertBody(r *state.Resource, firing bool, value float64, nowNs int64) *job.Blob {
	e := api.AlertEvent{
		Event: op.EventAlertResolved, Rule: AlertWatch(r), Value: value, Threshold: r.GetAlertRule().GetThreshold(),
		Firing: firing, At: api.TimeOf(time.Unix(0, nowNs)),
	}
	if firing {
		e.Event = op.EventAlertFired
	}
	data, err := json.Marshal(e)
	if err != nil { // only NaN or infinity fails, and watchAlerts refuses those
		data = []byte("{}")
	}
	return &job.Blob{Data: data}
}

// purgeDeliveries removes deliveries that ended long ago. While the store holds more than op.DeliveriesAim,
// it also removes those that ended recently.
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
