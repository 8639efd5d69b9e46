package api

import "encoding/json"

// Chain lists 1 to 100 jobs that run one after the other. The first step is the enqueued job itself, whose
// payload, too, must be an object. Each further step is created when the step before it has completed, and
// its payload has the job_id, queue and result of that earlier job as `previous`.
type Chain struct {
	Steps []ChainStep `json:"steps"`
	// OnFailure selects what follows a dead step: "stop" (the default), "continue" with the next step, or a
	// job, given by the name of a queue or as a ChainStep. The payload of that job has the job_id, queue,
	// attempt and error of the dead step as `failure`. A cancelled step always ends the chain.
	OnFailure json.RawMessage `json:"on_failure,omitempty"`
	OnExit    *ChainStep      `json:"on_exit,omitempty"` // runs once when the chain ends; its payload has `outcome` (completed, exited, failed or cancelled) and `previous`
}

// ChainStep is a future job of a chain.
type ChainStep struct {
	Queue   string          `json:"queue"`             // in the first step it repeats the queue of the enqueued job
	Payload json.RawMessage `json:"payload,omitempty"` // an object; default: the payload of the enqueued job; leave it out in the first step
}

// The values of AckRequest.StepStatus.
const (
	StepContinue = "continue" // the chain continues with the next step
	StepExit     = "exit"     // the chain ends; the remaining steps are skipped
)
