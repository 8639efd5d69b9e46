package state

import (
	"bytes"
	"testing"

	"github.com/corvo/corvo/engine/entry"
)

// beginTerm commits the first entry of a leader whose seed begins with the byte leader.
func beginTerm(t *testing.T, s *Store, leader byte) (index uint64) {
	t.Helper()
	head := s.Head()
	at := entry.Applied{Group: "g", Index: head.Index + 1, Term: head.Term + 1}
	tx := s.Begin(at, entry.Header{ClockNs: head.ClockNs + 1, Seed: entry.Seed{leader}})
	must(t, tx.StartTerm())
	must(t, tx.Commit())
	return at.Index
}

func termsOf(t *testing.T, s *Store) *Terms {
	t.Helper()
	v := s.Snapshot()
	defer v.Close()
	terms, err := v.Terms()
	must(t, err)
	return terms
}

// TestTermsAreKept begins as many terms as a store remembers, and one more.
func TestTermsAreKept(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	if terms := termsOf(t, s); terms.Last() != nil {
		t.Errorf("an empty store has the term %x", terms.Last())
	}
	seed := func(leader byte) []byte { s := entry.Seed{leader}; return s[:] }
	indexes := map[byte]uint64{}
	for leader := range byte(termsKept) {
		indexes[leader] = beginTerm(t, s, leader)
	}
	terms := termsOf(t, s)
	for leader := range byte(termsKept) {
		want := indexes[leader+1] // 0 for the newest
		if end, known := terms.End(seed(leader)); !known || end != want {
			t.Errorf("the term of %d ends before %d (%t), want %d", leader, end, known, want)
		}
	}
	beginTerm(t, s, termsKept)
	terms = termsOf(t, s)
	if _, known := terms.End(seed(0)); known || len(terms.Starts) != termsKept || !bytes.Equal(terms.Last(), seed(termsKept)) {
		t.Errorf("after one more there are %d terms, the last of %x; that of the first is known: %t", len(terms.Starts), terms.Last(), known)
	}
	if end, known := terms.End(seed(1)); !known || end != indexes[2] {
		t.Errorf("the second term ends before %d (%t), want %d", end, known, indexes[2])
	}
	if s.Head().TermStartedNs != s.Head().ClockNs {
		t.Error("the head does not say when the term began")
	}
	check(t, s)
}
