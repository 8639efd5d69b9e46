package api

// ReasonRequest is the optional body of POST /jobs/{id}/hold and POST /jobs/{id}/reject.
type ReasonRequest struct {
	Reason string `json:"reason,omitempty"` // at most 1 KiB
}
