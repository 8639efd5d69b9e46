package op

// Reason is the word that tells clients why a job does not run, or that it may run, runs or has settled. The
// words are permanent.
type Reason string

// The reasons of all jobs of a queue.
const (
	ReasonQueueDeleting    Reason = "queue_deleting"
	ReasonQueueDraining    Reason = "queue_draining"
	ReasonQueuePaused      Reason = "queue_paused"
	ReasonQueueConcurrency Reason = "queue_concurrency"
	ReasonQueueRate        Reason = "queue_rate"
)

// The reasons of all jobs of a fairness key.
const (
	ReasonKeyPaused      Reason = "key_paused"
	ReasonKeyConcurrency Reason = "key_concurrency"
	ReasonKeyRate        Reason = "key_rate"
)

// The reasons of a single job when it is next in its queue.
const (
	ReasonPolicy   Reason = "approval_policy"
	ReasonModel    Reason = "unknown_model"
	ReasonAgent    Reason = "agent_limit"
	ReasonProvider Reason = "provider_limit"
	ReasonBudget   Reason = "budget"
	ReasonExpired  Reason = "expired"
)

// ReasonSpendLimit is the reason of all pending jobs of an organisation that has reached its spend limit.
const ReasonSpendLimit Reason = "spend_limit"

// The reasons of a job that may run.
const (
	ReasonNoWorker Reason = "no_worker"
	ReasonBehind   Reason = "behind_others"
	ReasonReady    Reason = "ready"
	ReasonReopened Reason = "gate_open"
)

// The reasons of a job that is not pending.
const (
	ReasonDue          Reason = "not_due"
	ReasonDependencies Reason = "dependencies"
	ReasonRetry        Reason = "retry_delay"
	ReasonHeld         Reason = "held"
	ReasonRunning      Reason = "running"
	ReasonCancelling   Reason = "cancelling"
	ReasonSettled      Reason = "settled"
)
