package api

import "encoding/json"

// Chain is jobs that run one after the other. The first step is the job it is
// enqueued with; each of the others begins when the one before has completed, and
// finds that one's id, queue and result as `previous` in its payload.
type Chain struct {
	Steps []ChainStep `json:"steps"`
	// OnFailure is what comes when a step is dead: "stop" (the default), "continue"
	// with the next step, the name of a queue, or a ChainStep, which gets `failure`.
	OnFailure json.RawMessage `json:"on_failure,omitempty"`
	OnExit    *ChainStep      `json:"on_exit,omitempty"` // once at the end, however it came; gets `outcome`
}

// ChainStep is one job of a chain to be.
type ChainStep struct {
	Queue   string          `json:"queue"`             // of the first step the job's own
	Payload json.RawMessage `json:"payload,omitempty"` // an object; absent is the first step's, which is the job's own
}

// The values of AckRequest.StepStatus.
const (
	StepContinue = "continue" // the chain goes on with the next step
	StepExit     = "exit"     // the chain ends here: the steps left are skipped
)
