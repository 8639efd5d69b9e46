package api

// AlertWatch is the condition of an alert rule.
type AlertWatch struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	When      string   `json:"when"`   // queue_depth, dead, workers, oldest_pending (in seconds) or budget (in percent)
	Queue     string   `json:"queue"`  // "" = all queues
	Target    string   `json:"target"` // if when is budget: the watched budget, as scope/target
	Op        string   `json:"op"`     // > or <
	Threshold float64  `json:"threshold"`
	For       Duration `json:"for"` // how long the condition must hold before the rule fires
}

// AlertRuleRequest declares an alert rule. Name, When, Threshold and Notify are required. An absent field of
// the others gets its default, also when the request replaces a rule.
type AlertRuleRequest struct {
	Name      string   `json:"name"`             // at most 128 bytes
	When      string   `json:"when"`             // queue_depth, dead, workers, oldest_pending (in seconds) or budget (in percent)
	Queue     string   `json:"queue,omitempty"`  // default: all queues; refused if when is budget
	Target    string   `json:"target,omitempty"` // the watched budget, as scope/target; required if when is budget, else refused
	Op        string   `json:"op,omitempty"`     // > (the default) or <
	Threshold *float64 `json:"threshold"`
	For       Duration `json:"for,omitempty"` // how long the condition must hold before the rule fires, at most 24h; default: the rule fires at once
	Notify    string   `json:"notify"`        // id of an existing webhook
}

// The states of an alert rule.
const (
	AlertOK     = "ok"
	AlertFiring = "firing"
)

// AlertRule is the response of GET /alerts/{id}. Its JSON always has every field.
type AlertRule struct {
	AlertWatch
	Notify    string   `json:"notify"`
	State     string   `json:"state"` // ok or firing
	Since     *Time    `json:"since"` // when State last changed; null if the rule has never fired
	Value     *float64 `json:"value"` // the watched value at Since
	CreatedAt Time     `json:"created_at"`

	// Version is set by package client from the ETag of the response; 0 in a list.
	Version int64 `json:"-"`
}

// AlertEvent is the body that a webhook receives when an alert rule starts or stops firing.
type AlertEvent struct {
	Event     string     `json:"event"` // alert_fired or alert_resolved
	Rule      AlertWatch `json:"rule"`
	Value     float64    `json:"value"`
	Threshold float64    `json:"threshold"`
	Firing    bool       `json:"firing"`
	At        Time       `json:"at"`
}
