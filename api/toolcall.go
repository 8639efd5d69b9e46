package api

import "encoding/json"

// ToolCall makes an ack with AgentContinue create a job. The next iteration receives the outcome of that job.
// A ToolCall takes the fields of an enqueue, except unique and debounce keys, chain and dependencies, and
// except the parent, because the calling job is the parent.
type ToolCall struct {
	Name string `json:"name"` // chosen by the agent, 1 to 128 bytes; returned with the result
	EnqueueRequest
}

// ToolResult is the outcome of a tool call of the previous iteration.
type ToolResult struct {
	Name   string          `json:"name"`
	JobID  string          `json:"job_id"`
	Queue  string          `json:"queue"` // of the created job
	State  string          `json:"state"` // final state of that job; its present state if a person ended the wait; gone if the job was removed
	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"` // the last error; absent if the job completed
	// TooLarge means that the result is left out, because the results of all tools together exceed 4 MiB.
	// GET /jobs/{job_id} has it.
	TooLarge bool `json:"too_large,omitempty"`
}

// StateGone is the State of a tool call whose job was removed.
const StateGone = "gone"
