package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
)

// A repeated request gets the first result and is applied once, even if the state has changed since.
func TestIdempotency(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"))
	first := withKey(newNamespace("org_acme", "a"), "key")
	w.ok(first)
	before := w.dump()
	again := withKey(newNamespace("org_acme", "a"), "key")
	again.Id, again.OperationId = "ns_other", "op_other" // ids are minted anew at each try
	if r := do[*CreateNamespaceResult](w, again); r.Id != "ns_a" || r.OperationId != "op_create_a" {
		t.Errorf("the repeat answers %v", r)
	}
	if diff := difference(before, w.dump()); diff != "" {
		t.Errorf("a repeat: %s", diff)
	}
	w.reopen()
	if r := do[*CreateNamespaceResult](w, again); r.Id != "ns_a" {
		t.Errorf("after a restart the repeat answers %v", r)
	}
	// The same key is used for another request.
	other := withKey(newNamespace("org_acme", "b"), "key")
	other.Meta.Idempotency.RequestHash = hash("another request")
	w.refused(api.IdempotencyMismatch, other)
	w.refused(api.IdempotencyMismatch, withKey(deletion("a"), "key"))
	// The same key of another principal is a different key.
	other.Meta.Principal = "somebody"
	w.ok(other)
	// A refused request may be corrected and tried again.
	w.refused(api.Conflict, withKey(newOrg("acme"), "k2"))
	w.ok(withKey(newOrg("beta"), "k2"))
}

func TestIdempotencyIsForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(withKey(newOrg("acme"), "key"))
	w.pass(IdempotencyPeriod - 1)
	w.ok(withKey(newOrg("acme"), "key"))
	w.pass(1)
	// The expired key now belongs to a new request.
	if refusal, _ := w.apply(withKey(newOrg("acme"), "key"))[0].(error); refused(refusal, api.Conflict) != nil {
		t.Errorf("after its time a repeat answers %v", refusal)
	}
	if n := w.head.Load().idempotencyRecords; n != 0 {
		t.Errorf("%d keys are remembered", n)
	}
	// An expired record that is not purged yet is replaced, not counted twice.
	for i := range 4 * purgeRows {
		w.ok(withKey(newOrg(fmt.Sprintf("o%d", i)), fmt.Sprintf("k%d", i)))
	}
	w.pass(IdempotencyPeriod)
	last := fmt.Sprintf("k%d", 4*purgeRows-1)
	w.ok(withKey(newOrg("late"), last))
	for range 4 {
		w.ok(&StartTerm{})
	}
	stored := ask(w, func(r reader) (int64, error) { return number(r, "SELECT COUNT(*) FROM idempotency") })
	if n := w.head.Load().idempotencyRecords; n != 1 || stored != 1 {
		t.Errorf("%d keys are counted, %d stored, want the last one", n, stored)
	}
}

func TestIdempotencyBound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.limits.idempotency = 2
	w.ok(withKey(newOrg("a"), "a"))
	w.pass(time.Hour)
	w.ok(withKey(newOrg("b"), "b"))
	refusal := w.refused(api.Overloaded, withKey(newOrg("c"), "c"))
	if refusal.RetryAfter != IdempotencyPeriod-time.Hour {
		t.Errorf("try again after %v", refusal.RetryAfter)
	}
	w.ok(withKey(newOrg("a"), "a"), newOrg("c")) // repeats and requests without a key go on
	w.pass(refusal.RetryAfter)
	w.ok(&StartTerm{})
	w.ok(withKey(newOrg("d"), "d"))
}
