package state

import (
	"bytes"
	"fmt"
)

// termsKept is the number of leaders' terms that a store remembers. A view of an older term is rebuilt from
// the state, unless the feed still holds the view's newest entry.
const termsKept = 64

// StartTerm records the entry as the first of a leader's term. A leader appends the entries of its term in
// order. So this entry and all later ones before the next leader's first entry belong to one history. A log
// that loses its tail can reuse an index, a term number and even a clock, but not the random seed of an
// entry.
func (tx *Tx) StartTerm() error {
	tx.head.TermStartedNs = tx.head.ClockNs
	terms := &Terms{}
	if _, err := get(tx.s.gen.db, termsKey(), terms); err != nil {
		return tx.fail(fmt.Errorf("start a term: %w", err))
	}
	terms.Starts = append(terms.Starts, &TermStart{Index: tx.head.Index, Seed: tx.header.Seed[:]})
	if over := len(terms.Starts) - termsKept; over > 0 {
		terms.Starts = terms.Starts[over:]
	}
	if err := put(tx.batch, termsKey(), terms); err != nil {
		return tx.fail(fmt.Errorf("start a term: %w", err))
	}
	return nil
}

// Terms returns the last leaders' terms, the oldest first; there are none in a new store.
func (v *Snapshot) Terms() (*Terms, error) {
	terms := &Terms{}
	_, err := get(v.snap, termsKey(), terms)
	return terms, err
}

// Last returns the seed of the newest term's first entry, or nil if there is none.
func (t *Terms) Last() []byte {
	if len(t.Starts) == 0 {
		return nil
	}
	return t.Starts[len(t.Starts)-1].Seed
}

// End returns the index of the first entry after the term with the seed, or 0 if no later term has begun.
// known is false if the store remembers no term with the seed.
func (t *Terms) End(seed []byte) (index uint64, known bool) {
	for i, start := range t.Starts {
		if !bytes.Equal(start.Seed, seed) {
			continue
		}
		if i+1 < len(t.Starts) {
			index = t.Starts[i+1].Index
		}
		return index, true
	}
	return 0, false
}
