package api

import "encoding/json"

// AckRequest completes a job. Everything is optional; without LeaseToken the
// lease is proved by WorkerID, or by nothing where no earlier lease of the job
// expired.
type AckRequest struct {
	Result     json.RawMessage `json:"result,omitempty"`
	Checkpoint json.RawMessage `json:"checkpoint,omitempty"`
	Usage      *Usage          `json:"usage,omitempty"` // since the last report; added to the job's
	LeaseToken string          `json:"lease_token,omitempty"`
	WorkerID   string          `json:"worker_id,omitempty"`
	StepStatus string          `json:"step_status,omitempty"` // of a chain's step: continue (the default) or exit
}

// AckBatchRequest completes jobs, each on its own.
type AckBatchRequest struct {
	Acks []AckItem `json:"acks"`
}

// AckItem is one job of an AckBatchRequest.
type AckItem struct {
	JobID string `json:"job_id"`
	AckRequest
}

// AckBatchResponse counts the items whose job is completed and names the others.
type AckBatchResponse struct {
	Acked  int         `json:"acked"`
	Errors []ItemError `json:"errors,omitempty"`
}

// ItemError is why one item of a batch was refused.
type ItemError struct {
	JobID string `json:"job_id"`
	Code  Code   `json:"code"`
	Error string `json:"error"`
}
