package api

// AlertWatch is what an alert rule watches.
type AlertWatch struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	When      string   `json:"when"`   // queue_depth, dead, workers, oldest_pending (in seconds) or budget (in percent)
	Queue     string   `json:"queue"`  // empty: all queues
	Target    string   `json:"target"` // a budget, as scope/target
	Op        string   `json:"op"`     // > or <
	Threshold float64  `json:"threshold"`
	For       Duration `json:"for"` // how long it must hold
}

// AlertRuleRequest describes an alert rule: what is absent gets its default, also
// where it replaces one.
type AlertRuleRequest struct {
	Name      string   `json:"name"`
	When      string   `json:"when"`
	Queue     string   `json:"queue,omitempty"`  // default: all queues
	Target    string   `json:"target,omitempty"` // of when budget: scope/target
	Op        string   `json:"op,omitempty"`     // > (the default) or <
	Threshold *float64 `json:"threshold"`
	For       Duration `json:"for,omitempty"` // default: it fires as soon as it is seen
	Notify    string   `json:"notify"`        // id of a webhook
}

// The states of an alert rule.
const (
	AlertOK     = "ok"
	AlertFiring = "firing"
)

// AlertRule is an alert rule as GET /alerts/{id} answers it. Every field is always
// present in its JSON.
type AlertRule struct {
	AlertWatch
	Notify    string   `json:"notify"`
	State     string   `json:"state"` // ok or firing
	Since     *Time    `json:"since"` // since when; null: it has never fired
	Value     *float64 `json:"value"` // as it was then
	CreatedAt Time     `json:"created_at"`

	// Version is for the client, which reads it off the answer's ETag; 0 in a list.
	Version int64 `json:"-"`
}

// AlertEvent is what a webhook is sent when an alert rule fires, or does not any
// more.
type AlertEvent struct {
	Event     string     `json:"event"` // alert_fired or alert_resolved
	Rule      AlertWatch `json:"rule"`
	Value     float64    `json:"value"`
	Threshold float64    `json:"threshold"`
	Firing    bool       `json:"firing"`
	At        Time       `json:"at"`
}
