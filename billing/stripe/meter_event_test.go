package stripe

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/billing/stripe/stripefake"
)

// hour is an hour of usage that is over at start.
var hour = start.Add(-2 * time.Hour)

// metered is a fixture with the meters.
func metered(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	if _, err := f.setupMeters(t.Context(), Installation{}); err != nil {
		t.Fatal(err)
	}
	return f
}

func event(customer string) MeterEvent {
	return MeterEvent{Org: acme.Org, Customer: customer, Meter: billing.JobsEnqueued, Hour: hour, Change: 500}
}

// confirms returns the summaries of the hour and the next one, compared with quantities.
func (f *fixture) confirms(t *testing.T, customer string, units ...int64) (confirmed, other []HourTotal) {
	t.Helper()
	var sent []HourTotal
	for i, n := range units {
		sent = append(sent, HourTotal{hour.Add(time.Duration(i) * time.Hour), n})
	}
	confirmed, other, err := f.ConfirmSummaries(t.Context(), customer, billing.JobsEnqueued, sent)
	if err != nil {
		t.Fatal(err)
	}
	return confirmed, other
}

func TestOnlySummariesConfirm(t *testing.T) {
	t.Parallel()
	f := metered(t)
	customer := f.customer(t)
	if err := f.SendMeterEvent(t.Context(), event(customer), Attempts{}); err != nil {
		t.Fatal(err)
	}
	if confirmed, other := f.confirms(t, customer, 500); len(confirmed) != 0 || len(other) != 1 || other[0].Units != 0 {
		t.Errorf("at once: %v, %v", confirmed, other)
	}
	f.clock.Advance(stripefake.DefaultSummaryLag)
	if confirmed, other := f.confirms(t, customer, 500, 0); len(confirmed) != 2 || len(other) != 0 {
		t.Errorf("later: %v, %v", confirmed, other)
	}
	// A correction is the next revision, with the difference.
	correction := event(customer)
	correction.Revision, correction.Before, correction.Change = 1, 500, -20
	if err := f.SendMeterEvent(t.Context(), correction, Attempts{}); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(stripefake.DefaultSummaryLag)
	if confirmed, other := f.confirms(t, customer, 480); !slices.Equal(confirmed, []HourTotal{{hour, 480}}) || len(other) != 0 {
		t.Errorf("after the correction: %v, %v", confirmed, other)
	}
	// Stripe accepts the event of an unknown customer and drops it.
	lost := event("cus_none")
	lost.Revision = 2
	if err := f.SendMeterEvent(t.Context(), lost, Attempts{}); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(stripefake.DefaultSummaryLag)
	if confirmed, other := f.confirms(t, "cus_none", 500); len(confirmed) != 0 || len(other) != 1 {
		t.Errorf("of an unknown customer: %v, %v", confirmed, other)
	}
}

func TestACrashCountsNoEventTwice(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"at once": 0, "at the end of the window": RepeatWindow - time.Second, "after the window": RepeatWindow, "after a month": 33 * 24 * time.Hour} {
		for _, kind := range []stripefake.FaultKind{stripefake.LoseResponse, stripefake.LoseRequest} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f := metered(t)
				e := event(f.customer(t))
				f.fake.Inject(stripefake.Fault{Kind: kind})
				if err := f.SendMeterEvent(t.Context(), e, Attempts{}); !errors.Is(err, ErrUnavailable) {
					t.Fatal(err)
				}
				attempts := Attempts{First: f.clock.Now(), Last: f.clock.Now()}
				f.clock.Advance(wait)
				for range 2 {
					if err := f.SendMeterEvent(t.Context(), e, attempts); err != nil {
						t.Fatal(err)
					}
					attempts.Last = f.clock.Now()
					f.clock.Advance(SettleTime)
				}
				if confirmed, other := f.confirms(t, e.Customer, 500); len(confirmed) != 1 {
					t.Errorf("fault %d: %v", kind, other)
				}
			})
		}
	}
}

func TestALateRepeatWaitsForTheSummaries(t *testing.T) {
	t.Parallel()
	f := metered(t)
	e := event(f.customer(t))
	first := f.clock.Now()
	f.clock.Advance(RepeatWindow - time.Minute)
	if err := f.SendMeterEvent(t.Context(), e, Attempts{}); err != nil {
		t.Fatal(err)
	}
	attempts := Attempts{First: first, Last: f.clock.Now()}
	f.clock.Advance(SettleTime - time.Second)
	var wait *Error
	if err := f.SendMeterEvent(t.Context(), e, attempts); !errors.As(err, &wait) || wait.RetryAfter != time.Second {
		t.Fatalf("%v", err)
	}
	f.clock.Advance(time.Second)
	if err := f.SendMeterEvent(t.Context(), e, attempts); err != nil {
		t.Fatal(err)
	}
	// A summary with neither quantity is a mismatch.
	e.Change = 400
	if err := f.SendMeterEvent(t.Context(), e, attempts); !errors.Is(err, ErrMismatch) {
		t.Errorf("%v", err)
	}
}

func TestOldHoursAreUnsendable(t *testing.T) {
	t.Parallel()
	f := metered(t)
	e := event(f.customer(t))
	e.Hour = start.Add(-MaxEventAge)
	if err := f.SendMeterEvent(t.Context(), e, Attempts{}); err != nil {
		t.Errorf("at the bound: %v", err)
	}
	f.clock.Advance(time.Second)
	e.Revision++
	if err := f.SendMeterEvent(t.Context(), e, Attempts{}); !errors.Is(err, ErrUnsendable) {
		t.Errorf("beyond the bound: %v", err)
	}
}

func TestMeterEventsAreValidated(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, c := range map[string]struct {
		change func(*MeterEvent)
		want   error
	}{
		"no customer":     {func(e *MeterEvent) { e.Customer = "" }, ErrInvalid},
		"no organisation": {func(e *MeterEvent) { e.Org = "" }, ErrInvalid},
		"half an hour":    {func(e *MeterEvent) { e.Hour = e.Hour.Add(30 * time.Minute) }, ErrInvalid},
		"no change":       {func(e *MeterEvent) { e.Change = 0 }, ErrInvalid},
		"too many":        {func(e *MeterEvent) { e.Before, e.Change = 1, maxUnits }, ErrUnsendable},
		"below zero":      {func(e *MeterEvent) { e.Before, e.Change = 5, -6 }, ErrUnsendable},
		"overflow":        {func(e *MeterEvent) { e.Change = math.MaxInt64 }, ErrUnsendable},
		"another meter":   {func(e *MeterEvent) { e.Meter = billing.Requests }, ErrUnsendable},
	} {
		e := event("cus_1")
		c.change(&e)
		if err := f.SendMeterEvent(t.Context(), e, Attempts{}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if calls := f.fake.Calls(); len(calls) != 0 {
		t.Errorf("calls: %v", calls)
	}
}

func TestUnitsOfAMonthStayBelowTheBound(t *testing.T) {
	t.Parallel()
	petabyte, err := Units(billing.StoredByteSeconds, money.CountOf(1e15*3600))
	if err != nil || petabyte*31*24 >= maxUnits {
		t.Errorf("a petabyte: %d units an hour, %v", petabyte, err)
	}
	if n, err := Units(billing.Cost, money.CountOf(1999)); n != 1 || err != nil {
		t.Errorf("1999 nano-USD are %d, %v", n, err)
	}
	for _, quantity := range []money.Count{money.CountOf(-1), money.CountOf(math.MaxInt64), money.CountOf(maxUnits + 1)} {
		if _, err := Units(billing.JobsEnqueued, quantity); !errors.Is(err, ErrUnsendable) {
			t.Errorf("%s jobs: %v", quantity, err)
		}
	}
	if n, err := Units(billing.JobsEnqueued, money.CountOf(maxUnits)); n != maxUnits || err != nil {
		t.Errorf("the bound: %d, %v", n, err)
	}
	if _, err := Units(billing.Requests, money.CountOf(1)); !errors.Is(err, ErrUnsendable) {
		t.Errorf("requests: %v", err)
	}
	names := map[string]bool{}
	for _, u := range units {
		if names[u.event] || u.divisor < 1 || !u.meter.Known() {
			t.Errorf("%+v", u)
		}
		names[u.event] = true
	}
	if all := Meters(); len(all) != len(units) || all[0] != billing.InputTokens {
		t.Errorf("%v", all)
	}
}
