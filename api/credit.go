package api

// Credit is an amount that an organisation may use in place of payments.
type Credit struct {
	ID        string `json:"id"`
	Org       string `json:"org"`    // id of the organisation
	Status    string `json:"status"` // pending, active, used, revoked, withdrawn, expiring or expired
	Currency  string `json:"currency"`
	AmountUSD USD    `json:"amount_usd"`
	RestUSD   USD    `json:"rest_usd"` // not used yet; 0 unless the credit is active
	Reason    string `json:"reason"`
	// GrantedBy is the id of the operator's key that granted the credit, or that asks for it while the credit is pending.
	GrantedBy  string `json:"granted_by"`
	ApprovedBy string `json:"approved_by,omitempty"` // id of the second operator's key; absent if none was needed
	CreatedAt  Time   `json:"created_at"`
	GrantedAt  *Time  `json:"granted_at,omitempty"` // when the credit became active
	ExpiresAt  *Time  `json:"expires_at,omitempty"` // absent = never
	EndedAt    *Time  `json:"ended_at,omitempty"`   // when the credit was withdrawn, revoked or used up, or has expired
}

// The values of Credit.Status.
const (
	CreditPending   = "pending"   // waits for a second operator
	CreditActive    = "active"    // the rest may be used
	CreditUsed      = "used"      // invoices have used all of it
	CreditRevoked   = "revoked"   // an operator took the rest back
	CreditWithdrawn = "withdrawn" // never became active
	CreditExpiring  = "expiring"  // is over, and invoices of months that ended before may use the rest
	CreditExpired   = "expired"   // the rest went at the expiry
)

// GrantCreditRequest grants a credit. Only operators of the cloud may send it. If operators alone would grant more than
// 1,000 USD to the organisation in the calendar month, the credit is pending until a second operator approves it.
type GrantCreditRequest struct {
	AmountUSD USD    `json:"amount_usd"`           // above 0, at most 1000000
	Currency  string `json:"currency,omitempty"`   // USD, the default and the only one
	Reason    string `json:"reason"`               // 1 to 256 bytes; the organisation sees it
	ExpiresAt Time   `json:"expires_at,omitempty"` // default never
}

// RevokeCreditRequest ends a credit and takes back its unused rest.
type RevokeCreditRequest struct {
	Reason string `json:"reason"` // 1 to 256 bytes; the ledger has it
}
