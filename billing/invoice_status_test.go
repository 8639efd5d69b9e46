package billing

import "testing"

// Every state is reached from a draft, no transition stands twice, and only the ends have no way out.
func TestInvoiceTransitions(t *testing.T) {
	t.Parallel()
	reached, built, leaves := map[InvoiceStatus]bool{InvoiceDraft: true}, map[InvoiceStatus]bool{InvoiceDraft: true}, map[InvoiceStatus]bool{}
	seen := map[[2]InvoiceStatus]bool{}
	for _, tr := range InvoiceTransitions {
		if !reached[tr.From] || tr.Built && !built[tr.From] {
			t.Errorf("%s leads on to %s before anything leads to it", tr.From, tr.To)
		}
		if key := [2]InvoiceStatus{tr.From, tr.To}; seen[key] || tr.From == tr.To || tr.By == "" {
			t.Errorf("the transition %+v stands twice, changes nothing or is made by nobody", tr)
		} else {
			seen[key] = true
		}
		reached[tr.To], leaves[tr.From] = true, true
		built[tr.To] = built[tr.To] || tr.Built
	}
	for _, s := range []InvoiceStatus{InvoiceDraft, InvoiceClosing, InvoiceFinalised, InvoicePaid, InvoiceOverdue, InvoiceVoid, InvoiceCredited} {
		if end := s == InvoiceVoid || s == InvoiceCredited; !reached[s] || leaves[s] == end {
			t.Errorf("%s is reached: %v, and leads on: %v", s, reached[s], leaves[s])
		}
	}
}
