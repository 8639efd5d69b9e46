package api

import "encoding/json"

// ToolCall has an ack that goes on make a job, whose outcome the next iteration is
// given. It is an enqueue without unique and debounce keys, chain, dependencies and
// parent, which is the job that calls.
type ToolCall struct {
	Name string `json:"name"` // for the agent: it comes back with the result
	EnqueueRequest
}

// ToolResult is what came of a tool that the iteration before called.
type ToolResult struct {
	Name   string          `json:"name"`
	JobID  string          `json:"job_id"`
	Queue  string          `json:"queue"` // it was called in
	State  string          `json:"state"` // how it settled; what it is now where a person did not wait for it; gone where it has been removed
	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"` // the last one
	// TooLarge says that the result is left out because those of all tools are more than
	// 4 MiB: GET /jobs/{job_id} has it.
	TooLarge bool `json:"too_large,omitempty"`
}

// StateGone is the State of a tool whose job has been removed.
const StateGone = "gone"
