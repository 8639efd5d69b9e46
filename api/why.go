package api

// Why is the response of GET /jobs/{id}/why: the reasons why a job does not run. It describes one moment,
// by the rules of a fetch.
type Why struct {
	JobID   string `json:"job_id"`
	Queue   string `json:"queue"`
	State   string `json:"state"`
	Waiting bool   `json:"waiting"` // the job is neither active nor settled
	// Reasons lists what delays the job; each reason would do so alone. Of the checks before a start
	// (policies, models, agents, providers, budgets) only the first that delays the job is listed. A job that
	// does not wait has one reason, its state. There is always at least one.
	Reasons       []WhyReason  `json:"reasons"`
	Position      *WhyPosition `json:"position"`        // in its queue; null if it is not pending
	Workers       *int         `json:"workers"`         // workers with a worker_id that recently asked this node for jobs of its queue; null if it is not pending
	DependsOn     []WhyAwaited `json:"depends_on"`      // jobs it waits for that have not settled
	DependsOnMore bool         `json:"depends_on_more"` // the list may be incomplete, because the namespace has more unresolved dependencies than the server examines
	LastError     *string      `json:"last_error"`      // of the last ended attempt that did not succeed; null = none
	Outcome       *string      `json:"outcome"`         // of the last ended attempt; null if none has ended
}

// WhyReason is one reason. Reason is one of these permanent words:
//
//	queue_paused queue_draining queue_deleting queue_concurrency queue_rate
//	key_paused key_concurrency key_rate
//	approval_policy unknown_model agent_limit provider_limit budget expired
//	spend_limit
//	no_worker behind_others ready gate_open
//	not_due dependencies retry_delay held running cancelling settled
type WhyReason struct {
	Reason  string `json:"reason"`
	Name    string `json:"name,omitempty"`  // the queue, limit rule, provider, budget, policy, worker or other cause
	Message string `json:"message"`         // for people: the reason, and what to do
	Until   *Time  `json:"until,omitempty"` // earliest time at which the reason may end; absent = unknown
}

// WhyPosition is a job's position among the ready jobs of its queue, or among the jobs that wait for the same
// provider or budget. If the queue's jobs have fairness keys, only those with this job's key count.
type WhyPosition struct {
	Gate    string `json:"gate,omitempty"` // the provider or budget; absent = the queue
	Ahead   int64  `json:"ahead"`          // jobs before it
	AtLeast bool   `json:"at_least"`       // the count stopped early: there may be more before it
	Of      int64  `json:"of"`             // all jobs there, this one included
}

// WhyAwaited is a job that another job waits for.
type WhyAwaited struct {
	JobID string  `json:"job_id"`
	State *string `json:"state"` // null = unknown to this node, or in a queue that the caller may not see
}
