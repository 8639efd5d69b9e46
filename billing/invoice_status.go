package billing

// InvoiceStatus is the state of an invoice.
type InvoiceStatus string

// The states of an invoice. A draft and a closing invoice are computed from the usage and not stored.
const (
	InvoiceDraft     InvoiceStatus = "draft"     // its month is not over
	InvoiceClosing   InvoiceStatus = "closing"   // its month is over, and usage may still come
	InvoiceFinalised InvoiceStatus = "finalised" // it has a number, and its total is to be paid
	InvoicePaid      InvoiceStatus = "paid"      // it has a number, and nothing is to be paid
	InvoiceOverdue   InvoiceStatus = "overdue"   // its total was due
	InvoiceVoid      InvoiceStatus = "void"      // it keeps its number and is not to be paid
	InvoiceCredited  InvoiceStatus = "credited"  // a credit note has taken back its amount
)

// InvoiceTransition is a change of an invoice's state.
type InvoiceTransition struct {
	From, To InvoiceStatus
	By       string // who makes it
	Built    bool   // a state can be reached by it in this version
}

// InvoiceTransitions has all changes of an invoice's state (ADR 0091). Void and credited are ends.
var InvoiceTransitions = []InvoiceTransition{
	{InvoiceDraft, InvoiceClosing, "end of the month", true},
	{InvoiceClosing, InvoiceFinalised, "close", true},
	{InvoiceClosing, InvoicePaid, "close", true},
	{InvoiceFinalised, InvoicePaid, "payment", false},
	{InvoiceFinalised, InvoiceOverdue, "due date", false},
	{InvoiceFinalised, InvoiceVoid, "operator", false},
	{InvoiceFinalised, InvoiceCredited, "credit note", false},
	{InvoiceOverdue, InvoicePaid, "payment", false},
	{InvoiceOverdue, InvoiceVoid, "operator", false},
	{InvoiceOverdue, InvoiceCredited, "credit note", false},
	{InvoicePaid, InvoiceCredited, "credit note", false},
}
