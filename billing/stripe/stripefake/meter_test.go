package stripefake

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// meter makes a meter and returns its id.
func (f *fixture) meter() string {
	f.t.Helper()
	return f.do("POST", "/v1/billing/meters", "display_name=Jobs", "event_name=jobs", "default_aggregation[formula]=sum", "event_time_window=hour")["id"].(string)
}

// event returns the parameters of an event.
func event(customer, identifier string, at time.Time, value string) []string {
	return []string{
		"event_name=jobs", "identifier=" + identifier, fmt.Sprintf("timestamp=%d", at.Unix()),
		"payload[stripe_customer_id]=" + customer, "payload[value]=" + value,
	}
}

// hours returns the summaries of a customer from start on, by hour.
func (f *fixture) hours(meter, customer string) map[int]float64 {
	f.t.Helper()
	from, to := start.Add(-48*time.Hour), start.Add(48*time.Hour)
	all := map[int]float64{}
	for _, o := range data(f.do("GET", "/v1/billing/meters/"+meter+"/event_summaries", "customer="+customer, "value_grouping_window=hour", "limit=100",
		fmt.Sprintf("start_time=%d", from.Unix()), fmt.Sprintf("end_time=%d", to.Unix()))) {
		all[int(time.Unix(int64(o["start_time"].(float64)), 0).Sub(start).Hours())] = o["aggregated_value"].(float64)
	}
	return all
}

func TestSummariesCountEventsLater(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	meter, customer := f.meter(), f.customer()
	f.do("POST", "/v1/billing/meter_events", event(customer, "a", start, "5")...)
	f.do("POST", "/v1/billing/meter_events", event(customer, "b", start.Add(-time.Second), "7")...)
	f.do("POST", "/v1/billing/meter_events", event(customer, "c", start, "3")...)
	f.do("POST", "/v1/billing/meter_events", event("cus_none", "d", start, "100")...)
	f.do("POST", "/v1/billing/meter_events", event(customer, "e", start, "0.5")...)
	if got := f.hours(meter, customer); len(got) != 0 {
		t.Errorf("summaries at once: %v", got)
	}
	f.clock.Advance(DefaultSummaryLag)
	if got := f.hours(meter, customer); len(got) != 2 || got[0] != 8 || got[-1] != 7 {
		t.Errorf("summaries: %v", got)
	}
	f.refuses(400, "", "GET", "/v1/billing/meters/"+meter+"/event_summaries", "customer="+customer, "value_grouping_window=hour", "start_time=60", "end_time=3600")
}

func TestIdentifiersAreUniqueForADay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	meter, customer := f.meter(), f.customer()
	f.do("POST", "/v1/billing/meter_events", event(customer, "a", start, "5")...)
	f.clock.Advance(identifierLife - time.Second)
	f.refuses(400, "duplicate_meter_event", "POST", "/v1/billing/meter_events", event(customer, "a", start, "5")...)
	f.clock.Advance(time.Second)
	f.do("POST", "/v1/billing/meter_events", event(customer, "a", start, "5")...)
	f.clock.Advance(DefaultSummaryLag)
	if got := f.hours(meter, customer); got[0] != 10 {
		t.Errorf("summaries: %v, want the event twice", got)
	}
}

func TestOldAndFutureEventsAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.meter()
	customer := f.customer()
	f.do("POST", "/v1/billing/meter_events", event(customer, "a", start.Add(-oldestEvent), "5")...)
	f.refuses(400, "timestamp_too_far_in_past", "POST", "/v1/billing/meter_events", event(customer, "b", start.Add(-oldestEvent-time.Second), "5")...)
	f.do("POST", "/v1/billing/meter_events", event(customer, "c", start.Add(newestEvent), "5")...)
	f.refuses(400, "timestamp_in_future", "POST", "/v1/billing/meter_events", event(customer, "d", start.Add(newestEvent+time.Second), "5")...)
	f.refuses(400, "resource_missing", "POST", "/v1/billing/meter_events", "event_name=frob")
}

func TestOneCallAtATimeForACustomerAndMeter(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.meter()
	one, other := f.customer(), f.customer()
	release, done := make(chan struct{}), make(chan int)
	f.Inject(Fault{Kind: Hold, Route: "POST /v1/billing/meter_events", Release: release})
	go func() {
		status, _, _ := f.try("", "POST", "/v1/billing/meter_events", event(one, "a", start, "5")...)
		done <- status
	}()
	wait(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.busy) == 1
	})
	f.refuses(http.StatusTooManyRequests, "lock_timeout", "POST", "/v1/billing/meter_events", event(one, "b", start, "5")...)
	f.do("POST", "/v1/billing/meter_events", event(other, "c", start, "5")...)
	close(release)
	if status := <-done; status != 200 {
		t.Errorf("the held request answered %d", status)
	}
	f.do("POST", "/v1/billing/meter_events", event(one, "b", start, "5")...)
}

func TestAMeterIsDeactivatedAndReactivated(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	meter := f.meter()
	f.refuses(400, "", "POST", "/v1/billing/meters", "display_name=Jobs", "event_name=jobs", "default_aggregation[formula]=sum")
	f.do("POST", "/v1/billing/meters/"+meter+"/deactivate")
	f.refuses(400, "resource_missing", "POST", "/v1/billing/meter_events", event("cus_1", "a", start, "1")...)
	f.do("POST", "/v1/billing/meters/"+meter+"/reactivate")
	if o := f.do("POST", "/v1/billing/meters/"+meter, "display_name=Work"); o["status"] != "active" || o["display_name"] != "Work" {
		t.Errorf("%v", o)
	}
	if all := data(f.do("GET", "/v1/billing/meters", "status=active")); len(all) != 1 {
		t.Errorf("%v", all)
	}
}
