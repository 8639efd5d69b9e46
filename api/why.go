package api

// Why says why a job does not run, as GET /jobs/{id}/why answers it: as of one moment,
// by the same rules by which a fetch decides.
type Why struct {
	JobID   string `json:"job_id"`
	Queue   string `json:"queue"`
	State   string `json:"state"`
	Waiting bool   `json:"waiting"` // it is to run, and does not yet
	// Reasons are all that keep it, each of which alone would; of a job that does not
	// wait, the one of what it does instead. There is always one.
	Reasons       []WhyReason  `json:"reasons"`
	Position      *WhyPosition `json:"position"`        // its place in line; null when it is not pending
	Workers       *int         `json:"workers"`         // that asked this node lately for jobs of its queue; null when it is not pending
	DependsOn     []WhyAwaited `json:"depends_on"`      // jobs it waits for that have not settled
	DependsOnMore bool         `json:"depends_on_more"` // there may be others: so many jobs wait here that not all were looked through
	LastError     *string      `json:"last_error"`      // of the last attempt that failed
	Outcome       *string      `json:"outcome"`         // how that attempt ended, or that it completed; null when none has
}

// WhyReason is one reason. Reason is a permanent word:
//
//	queue_paused queue_draining queue_deleting queue_concurrency queue_rate
//	key_paused key_concurrency key_rate
//	approval_policy unknown_model agent_limit provider_limit budget expired
//	no_worker behind_others ready gate_open
//	not_due dependencies retry_delay held running cancelling settled
type WhyReason struct {
	Reason  string `json:"reason"`
	Name    string `json:"name,omitempty"`  // of what keeps it: a queue, a provider, a budget, a policy, a worker
	Message string `json:"message"`         // for people: what it is, and what to do
	Until   *Time  `json:"until,omitempty"` // when it may be otherwise at the earliest; absent where nobody knows
}

// WhyPosition is a job's place among the ready jobs of its queue, or among those that
// wait at the same gate.
type WhyPosition struct {
	Gate    string `json:"gate,omitempty"` // of the provider or budget it waits for; absent: in its queue
	Ahead   int64  `json:"ahead"`          // jobs before it
	AtLeast bool   `json:"at_least"`       // there are more before it than were counted
	Of      int64  `json:"of"`             // jobs in line, itself included
}

// WhyAwaited is a job that another waits for.
type WhyAwaited struct {
	JobID string  `json:"job_id"`
	State *string `json:"state"` // null where it is not known here
}
