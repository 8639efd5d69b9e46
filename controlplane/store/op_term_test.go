package store

import (
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
)

// An op that carries the term of its leader changes nothing in an entry of another term.
func TestOpsOfAnotherTermAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newHost("h1"), start("h1", "h1"), newOrg("acme"), newNamespace("org_acme", "prod"))
	in := func(term uint64) *PlaceNamespace {
		o := place("prod", "h1")
		o.Meta.Term = term
		return o
	}
	for _, term := range []uint64{2, 1 << 63} { // the entries of these tests are of term 1
		if refusal := w.refused(api.StateConflict, in(term)); !strings.Contains(refusal.Message, "term 1 has begun") {
			t.Errorf("the refusal is %v", refusal)
		}
	}
	w.ok(in(1))
}
