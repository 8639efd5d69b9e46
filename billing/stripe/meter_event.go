package stripe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	stripego "github.com/stripe/stripe-go/v76"

	"github.com/corvo/corvo/billing"
)

// The times of meter events.
const (
	// MaxEventAge is the age of the oldest hour that Stripe takes.
	MaxEventAge = 35 * 24 * time.Hour
	// RepeatWindow is the time after the first attempt in which a repeat relies on the event's identifier. Stripe remembers
	// identifiers for 24 hours, and the difference is for clocks and slow requests.
	RepeatWindow = 23 * time.Hour
	// SettleTime is the time after an attempt in which summaries may lack its event.
	SettleTime = time.Hour
)

// MeterEvent is the change of the quantity of an hour by one revision. Revision 0 has the whole quantity. A correction is
// the next revision and has the difference, which may be negative.
type MeterEvent struct {
	Org, Customer string
	Meter         billing.Meter
	Hour          time.Time // its start
	Revision      int
	Before        int64 // units of the earlier revisions, which summaries have confirmed
	Change        int64 // units of this revision, not 0
}

// Attempts are the times at which a MeterEvent was tried before, whatever became of it. The zero value means never.
type Attempts struct{ First, Last time.Time }

// identifier names the event. Stripe ignores a second event of the same identifier for 24 hours.
func (e MeterEvent) identifier() string {
	return fmt.Sprintf("%s:%d:%d:%d", e.Org, e.Meter, e.Hour.Unix()/3600, e.Revision)
}

func (e MeterEvent) validate() error {
	switch {
	case !orgID.MatchString(e.Org) || e.Customer == "":
		return invalid("a meter event of organisation %q and customer %q lacks one of them", e.Org, e.Customer)
	case e.Hour.Unix()%3600 != 0 || e.Revision < 0 || e.Change == 0:
		return invalid("meter event %s at %s changes the hour by %d: it needs a whole hour, a revision and a change", e.identifier(), e.Hour, e.Change)
	case e.Before < 0 || e.Before > maxUnits || e.Change < -e.Before || e.Change > maxUnits-e.Before:
		return unsendable("meter event %s changes %d units by %d, and an hour has 0 to 2^53", e.identifier(), e.Before, e.Change)
	}
	return nil
}

// SendMeterEvent sends an event. Success is no proof that Stripe counts it: only ConfirmSummaries is. The caller records the
// time of each attempt before it calls, and calls for one customer and meter once at a time. A repeat within RepeatWindow of
// the first attempt has the same identifier. Later repeats read the summary of the hour first, and send only if it lacks the
// event. SendMeterEvent returns ErrUnsendable if the hour is too old, ErrUnavailable if the last attempt is younger than
// SettleTime and decides nothing yet, and ErrMismatch if the summary has neither quantity.
func (c *Client) SendMeterEvent(ctx context.Context, e MeterEvent, before Attempts) error {
	if err := e.validate(); err != nil {
		return err
	}
	u, ok := unitOf(e.Meter)
	if !ok {
		return unsendable("Stripe does not get the meter %s", e.Meter)
	}
	now := c.now()
	if now.Sub(e.Hour) > MaxEventAge {
		return unsendable("the hour %s is older than 35 days", e.Hour.UTC().Format(time.RFC3339))
	}
	if !before.First.IsZero() && now.Sub(before.First) >= RepeatWindow {
		if counted, err := c.counted(ctx, e, before, now); err != nil || counted {
			return err
		}
	}
	send := &stripego.BillingMeterEventParams{
		Params: params(ctx, ""), EventName: stripego.String(u.event), Identifier: stripego.String(e.identifier()), Timestamp: stripego.Int64(e.Hour.Unix()),
		Payload: map[string]string{"stripe_customer_id": e.Customer, "value": fmt.Sprint(e.Change)},
	}
	_, err := c.api.BillingMeterEvents.New(send)
	var refused *Error
	err = translate(err)
	if errors.As(err, &refused) && errors.Is(err, ErrRefused) {
		switch {
		case refused.Code == "duplicate_meter_event" || strings.Contains(refused.Message, "already exists with identifier"):
			return nil // an earlier attempt has reached Stripe
		case refused.Code == "timestamp_too_far_in_past":
			return unsendable("%s", refused.Message)
		}
	}
	return err
}

// counted reports whether the summary of the event's hour has the event.
func (c *Client) counted(ctx context.Context, e MeterEvent, before Attempts, now time.Time) (bool, error) {
	if wait := SettleTime - now.Sub(before.Last); wait > 0 {
		return false, &Error{Kind: ErrUnavailable, Message: "the last attempt may not be in the summaries yet", RetryAfter: wait}
	}
	hours, err := c.hours(ctx, e.Customer, e.Meter, e.Hour, e.Hour.Add(time.Hour))
	if err != nil {
		return false, err
	}
	switch has := hours[e.Hour.Unix()]; has {
	case e.Before:
		return false, nil
	case e.Before + e.Change:
		return true, nil
	default:
		return false, mismatch("the summary of %s at %s has %d units, and we sent %d and then a change by %d", e.Meter, e.Hour.UTC().Format(time.RFC3339), has, e.Before, e.Change)
	}
}

// HourTotal is the quantity of an hour in Stripe's unit.
type HourTotal struct {
	Hour  time.Time
	Units int64
}

// MaxHours is the largest number of hours that ConfirmSummaries compares at once: those of a month.
const MaxHours = 31 * 24

// ConfirmSummaries compares sent quantities of a customer and meter with Stripe's summaries. Confirmed are the hours whose
// summary has the quantity sent. Other are the hours between the first and the last one whose summary has another quantity,
// with that quantity. An hour without a summary has 0. It returns ErrInvalid for more than MaxHours hours.
func (c *Client) ConfirmSummaries(ctx context.Context, customer string, m billing.Meter, sent []HourTotal) (confirmed, other []HourTotal, err error) {
	if len(sent) == 0 {
		return nil, nil, nil
	}
	byHour, from, to := map[int64]int64{}, sent[0].Hour, sent[0].Hour
	for _, h := range sent {
		if h.Hour.Unix()%3600 != 0 {
			return nil, nil, invalid("%s is not a whole hour", h.Hour)
		}
		byHour[h.Hour.Unix()] += h.Units
		if h.Hour.Before(from) {
			from = h.Hour
		}
		if h.Hour.After(to) {
			to = h.Hour
		}
	}
	if to.Sub(from) >= MaxHours*time.Hour {
		return nil, nil, invalid("the hours from %s to %s are more than %d", from, to, MaxHours)
	}
	has, err := c.hours(ctx, customer, m, from, to.Add(time.Hour))
	if err != nil {
		return nil, nil, err
	}
	for hour := range has {
		if _, ok := byHour[hour]; !ok {
			byHour[hour] = 0 // Stripe counts an hour that we did not send
		}
	}
	for hour, units := range byHour {
		total := HourTotal{time.Unix(hour, 0).UTC(), has[hour]}
		if units == has[hour] {
			confirmed = append(confirmed, total)
		} else {
			other = append(other, total)
		}
	}
	byTime := func(a, b HourTotal) int { return a.Hour.Compare(b.Hour) }
	slices.SortFunc(confirmed, byTime)
	slices.SortFunc(other, byTime)
	return confirmed, other, nil
}

// hours returns the summaries of a customer and meter by the hour in Unix time.
func (c *Client) hours(ctx context.Context, customer string, m billing.Meter, from, to time.Time) (map[int64]int64, error) {
	u, ok := unitOf(m)
	if !ok {
		return nil, unsendable("Stripe does not get the meter %s", m)
	}
	meters, err := c.meters(ctx)
	if err != nil {
		return nil, err
	}
	meter := meters[u.event]
	if meter == nil {
		return nil, fmt.Errorf("%w: it has no meter %s: run corvo-cloud admin stripe setup", ErrRefused, u.event)
	}
	all := map[int64]int64{}
	list := c.api.BillingMeterEventSummaries.List(&stripego.BillingMeterEventSummaryListParams{
		ListParams: listing(ctx), ID: stripego.String(meter.ID), Customer: stripego.String(customer), ValueGroupingWindow: stripego.String("hour"),
		StartTime: stripego.Int64(from.Unix()), EndTime: stripego.Int64(to.Unix()),
	})
	for list.Next() {
		s := list.BillingMeterEventSummary()
		n := int64(s.AggregatedValue)
		if s.AggregatedValue > maxUnits || s.AggregatedValue < -maxUnits || float64(n) != s.AggregatedValue {
			return nil, mismatch("the summary %s has %v units, which is not an exact whole number", s.ID, s.AggregatedValue)
		}
		all[s.StartTime] += n
	}
	return all, translate(list.Err())
}

// meters returns the meters of Stripe by the names of their events. Of several with one name the active one counts.
func (c *Client) meters(ctx context.Context) (map[string]*stripego.BillingMeter, error) {
	all := map[string]*stripego.BillingMeter{}
	list := c.api.BillingMeters.List(&stripego.BillingMeterListParams{ListParams: listing(ctx)})
	for list.Next() {
		m := list.BillingMeter()
		if all[m.EventName] == nil || m.Status == stripego.BillingMeterStatusActive {
			all[m.EventName] = m
		}
	}
	return all, translate(list.Err())
}

// unsendable makes an ErrUnsendable.
func unsendable(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnsendable, fmt.Sprintf(format, args...))
}
