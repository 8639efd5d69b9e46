package stripefake

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// The bounds of meter events.
const (
	identifierLife = 24 * time.Hour      // an identifier is refused again for this long
	oldestEvent    = 35 * 24 * time.Hour // an older timestamp is refused
	newestEvent    = 5 * time.Minute     // a timestamp further ahead is refused
	maxIdentifier  = 100                 // bytes
)

// usage is a meter event that the fake has processed. Its effect is visible in summaries from visible on.
type usage struct {
	meter, customer string
	at, visible     time.Time
	value           int64
}

func (s *Server) createMeter(c *call) (object, *failure) {
	if err := c.need("display_name", "event_name", "default_aggregation[formula]"); err != nil {
		return nil, err
	}
	for _, other := range s.of("billing.meter").byID {
		if other["event_name"] == c.form.Get("event_name") && other["status"] == "active" {
			return nil, invalid("", "event_name", "A meter with the event name %s already exists.", c.form.Get("event_name"))
		}
	}
	if formula := c.form.Get("default_aggregation[formula]"); formula != "sum" && formula != "count" {
		return nil, invalid("", "default_aggregation[formula]", "Invalid formula: %s", formula)
	}
	return s.create("billing.meter", "mtr", object{
		"customer_mapping":    object{"event_payload_key": "stripe_customer_id", "type": "by_id"},
		"default_aggregation": object{"formula": c.form.Get("default_aggregation[formula]")},
		"display_name":        c.form.Get("display_name"), "event_name": c.form.Get("event_name"), "event_time_window": c.text("event_time_window"),
		"status": "active", "status_transitions": object{"deactivated_at": nil}, "updated": s.cfg.Now().Unix(), "value_settings": object{"event_payload_key": "value"},
	}), nil
}

func (s *Server) listMeters(c *call) (object, *failure) {
	return s.page(c, "billing.meter", func(o object) bool { return !c.has("status") || o["status"] == c.form.Get("status") })
}

func (s *Server) updateMeter(c *call) (object, *failure) {
	return s.changeMeter(c, func(o object) { o["display_name"] = c.form.Get("display_name") })
}

func (s *Server) deactivateMeter(c *call) (object, *failure) {
	return s.changeMeter(c, func(o object) {
		o["status"] = "inactive"
		o["status_transitions"].(object)["deactivated_at"] = s.cfg.Now().Unix()
	})
}

func (s *Server) reactivateMeter(c *call) (object, *failure) {
	return s.changeMeter(c, func(o object) {
		o["status"] = "active"
		o["status_transitions"].(object)["deactivated_at"] = nil
	})
}

func (s *Server) changeMeter(c *call, change func(object)) (object, *failure) {
	o, err := s.find("billing.meter", c.PathValue("id"))
	if err != nil {
		return nil, err
	}
	change(o)
	o["updated"] = s.cfg.Now().Unix()
	return o, nil
}

// meterOf names the customer and meter of an event. Stripe refuses two calls at once for them.
func meterOf(c *call) string {
	return c.form.Get("payload[stripe_customer_id]") + " " + c.form.Get("event_name")
}

// createMeterEvent accepts an event. Acceptance is no proof: an event of an unknown customer or without a whole number is
// accepted, and is dropped when it is processed.
func (s *Server) createMeterEvent(c *call) (object, *failure) {
	if err := c.need("event_name"); err != nil {
		return nil, err
	}
	now := s.cfg.Now()
	at := now
	if c.has("timestamp") {
		seconds, err := strconv.ParseInt(c.form.Get("timestamp"), 10, 64)
		if err != nil {
			return nil, invalid("parameter_invalid_integer", "timestamp", "Invalid integer: %s", c.form.Get("timestamp"))
		}
		at = time.Unix(seconds, 0)
	}
	var meter object
	for _, o := range s.of("billing.meter").byID {
		if o["event_name"] == c.form.Get("event_name") && o["status"] == "active" {
			meter = o
		}
	}
	identifier := c.form.Get("identifier")
	if identifier == "" {
		s.next++
		identifier = fmt.Sprintf("identifier_fake%06d", s.next)
	}
	switch {
	case meter == nil:
		return nil, invalid("resource_missing", "event_name", "No active meter found for event name: %s", c.form.Get("event_name"))
	case len(identifier) > maxIdentifier:
		return nil, invalid("parameter_invalid_string", "identifier", "The identifier has more than %d characters.", maxIdentifier)
	case now.Sub(at) > oldestEvent:
		return nil, invalid("timestamp_too_far_in_past", "timestamp", "The timestamp must be within the past 35 days.")
	case at.Sub(now) > newestEvent:
		return nil, invalid("timestamp_in_future", "timestamp", "The timestamp must be at most 5 minutes in the future.")
	}
	seen := "event " + identifier
	if until, ok := s.seen[seen]; ok && now.Before(until) {
		return nil, invalid("duplicate_meter_event", "identifier", "An event already exists with identifier %s.", identifier)
	}
	s.seen[seen] = now.Add(identifierLife)
	payload := c.pairs("payload")
	customer, _ := payload["stripe_customer_id"].(string)
	value, err := strconv.ParseInt(fmt.Sprint(payload["value"]), 10, 64)
	if s.of("customer").byID[customer] != nil && err == nil {
		s.usage = append(s.usage, usage{meter["id"].(string), customer, at, now.Add(s.cfg.SummaryLag), value})
	}
	return object{
		"object": "billing.meter_event", "created": now.Unix(), "event_name": c.form.Get("event_name"), "identifier": identifier,
		"livemode": false, "payload": payload, "timestamp": at.Unix(),
	}, nil
}

// listSummaries returns sums of the visible events of a customer, by hour or by day with value_grouping_window, the newest
// first. Windows without events are absent.
func (s *Server) listSummaries(c *call) (object, *failure) {
	if _, err := s.find("billing.meter", c.PathValue("id")); err != nil {
		return nil, err
	}
	if err := c.need("customer", "start_time", "end_time"); err != nil {
		return nil, err
	}
	from, err1 := strconv.ParseInt(c.form.Get("start_time"), 10, 64)
	to, err2 := strconv.ParseInt(c.form.Get("end_time"), 10, 64)
	window := map[string]int64{"": to - from, "hour": 3600, "day": 86400}[c.form.Get("value_grouping_window")]
	grain := map[string]int64{"": 60, "hour": 3600, "day": 86400}[c.form.Get("value_grouping_window")]
	switch {
	case err1 != nil || err2 != nil || from >= to:
		return nil, invalid("parameter_invalid_integer", "start_time", "start_time must be an earlier time than end_time.")
	case grain == 0:
		return nil, invalid("", "value_grouping_window", "Invalid value_grouping_window: must be hour or day.")
	case from%grain != 0 || to%grain != 0:
		return nil, invalid("", "start_time", "start_time and end_time must be aligned with the value_grouping_window.")
	}
	sums := map[int64]int64{}
	for _, u := range s.usage {
		if at := u.at.Unix(); u.meter == c.PathValue("id") && u.customer == c.form.Get("customer") && from <= at && at < to && !s.cfg.Now().Before(u.visible) {
			sums[from+(at-from)/window*window] += u.value
		}
	}
	return s.summaries(c, sums, window)
}

// summaries returns a page of the sums by the starts of their windows.
func (s *Server) summaries(c *call, sums map[int64]int64, window int64) (object, *failure) {
	var starts []int64
	for start := range sums {
		starts = append(starts, start)
	}
	slices.Sort(starts)
	slices.Reverse(starts)
	list := &kind{byID: map[string]object{}}
	for i := len(starts) - 1; i >= 0; i-- { // page returns the last one first
		id := fmt.Sprintf("mtrusg_fake%d", starts[i])
		list.ids = append(list.ids, id)
		list.byID[id] = object{
			"id": id, "object": "billing.meter_event_summary", "livemode": false, "meter": c.PathValue("id"),
			"start_time": starts[i], "end_time": starts[i] + window, "aggregated_value": float64(sums[starts[i]]),
		}
	}
	s.kinds["summaries of a request"] = list
	defer delete(s.kinds, "summaries of a request")
	return s.page(c, "summaries of a request", func(object) bool { return true })
}
