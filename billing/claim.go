package billing

import "time"

// Claim is a source's claim that its usage is complete: after row Last no row follows of an
// hour that ends by UntilNs.
type Claim struct {
	UntilNs int64 `json:"until_ns"` // Unix nanoseconds
	// Last is the number of the newest row that the receiver had when the claim was made; 0 = none. A gateway, whose claim
	// is for all its sources, sets none.
	Last uint64 `json:"last,omitempty"`
}

// ClaimEvery is the time between two claims of a source, and LateAfter the age of a claim after which its source is
// late. A claim is recorded a minute after it was made, and is a minute old when it is made.
const (
	ClaimEvery = 5 * time.Minute
	LateAfter  = 15 * time.Minute
)
