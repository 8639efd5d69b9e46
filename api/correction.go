package api

// Correction changes the usage of a namespace. One operator of the cloud proposes it, and another one approves it.
type Correction struct {
	ID        string `json:"id"`
	Org       string `json:"org"`       // id of the organisation
	Namespace string `json:"namespace"` // its id
	Status    string `json:"status"`    // pending, applied or rejected
	Meter     string `json:"meter"`     // its name
	Hour      Time   `json:"hour"`      // start of the hour whose usage changes
	Queue     string `json:"queue,omitempty"`
	Model     string `json:"model,omitempty"`
	Provider  string `json:"provider,omitempty"`
	// Quantity is added to the usage of the hour, in whole units of the meter; negative = taken away. The unit of cost_usd
	// is a billionth of a dollar.
	Quantity   int64  `json:"quantity"`
	Reason     string `json:"reason"`
	ProposedBy string `json:"proposed_by"` // id of the operator's key
	CreatedAt  Time   `json:"created_at"`
	ApprovedBy string `json:"approved_by,omitempty"` // id of the second operator's key
	AppliedAt  *Time  `json:"applied_at,omitempty"`  // since when the usage contains it
	RejectedBy string `json:"rejected_by,omitempty"`
	RejectedAt *Time  `json:"rejected_at,omitempty"`
	Rejection  string `json:"rejection,omitempty"` // reason of the rejection
}

// The values of Correction.Status.
const (
	CorrectionPending  = "pending"  // waits for a second operator
	CorrectionApplied  = "applied"  // usage contains it
	CorrectionRejected = "rejected" // an operator refused it, or its proposer withdrew it
)

// ProposeCorrectionRequest proposes a correction. Only operators of the cloud may send it.
type ProposeCorrectionRequest struct {
	Namespace string `json:"namespace"` // name or id; of a deleted namespace its id
	Meter     string `json:"meter"`     // its name, such as output_tokens
	Hour      Time   `json:"hour"`      // a whole hour in UTC that has begun, in a month that is not closed
	Queue     string `json:"queue,omitempty"`
	Model     string `json:"model,omitempty"`
	Provider  string `json:"provider,omitempty"`
	Quantity  int64  `json:"quantity"` // not 0; negative = taken away
	Reason    string `json:"reason"`   // 1 to 512 bytes; the organisation sees it
}

// RejectCorrectionRequest ends a correction that waits for approval.
type RejectCorrectionRequest struct {
	Reason string `json:"reason"` // 1 to 512 bytes; the organisation sees it
}
