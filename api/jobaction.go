package api

// ReasonRequest is the body of POST /jobs/{id}/hold and POST /jobs/{id}/reject, and
// may be left out.
type ReasonRequest struct {
	Reason string `json:"reason,omitempty"` // why; at most 1 KiB
}
