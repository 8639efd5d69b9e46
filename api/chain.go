package api

import "encoding/json"

// Chain lists jobs that run one after the other. The first step is the enqueued job itself. Each further
// step starts when the step before it has completed, and its payload has that job's id, queue and result
// as `previous`.
type Chain struct {
	Steps []ChainStep `json:"steps"`
	// OnFailure selects what follows a dead step: "stop" (the default), "continue" with the next step,
	// the name of a queue, or a ChainStep. The payload of the job has `failure`.
	OnFailure json.RawMessage `json:"on_failure,omitempty"`
	OnExit    *ChainStep      `json:"on_exit,omitempty"` // runs once at every end of the chain; its payload has `outcome`
}

// ChainStep is a future job of a chain.
type ChainStep struct {
	Queue   string          `json:"queue"`             // of the first step: the queue of the enqueued job
	Payload json.RawMessage `json:"payload,omitempty"` // an object; default: the payload of the enqueued job
}

// The values of AckRequest.StepStatus.
const (
	StepContinue = "continue" // the chain continues with the next step
	StepExit     = "exit"     // the chain ends; the remaining steps are skipped
)
