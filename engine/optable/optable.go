// Package optable keeps the ops of a replicated state machine in a table. The row of a number holds the op's
// name, its class, its messages and its Apply. Each plane has a table and may add columns to its rows.
//
// The package makes decoding strict: a number, a field or bytes that this binary does not know are an error,
// because replicas that ignored them would diverge. It knows no op. Of the tree it imports engine/entry and
// engine/pipeline only.
package optable

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/corvo/corvo/engine/entry"
)

// Table holds rows of type R by number: a *Row, or a pointer to a struct that embeds one.
type Table[R row] struct {
	byNumber []R
}

type row interface {
	comparable
	setNumber(entry.Number)
	message() protoreflect.MessageDescriptor
}

// New returns the table of the rows and gives each row its index as its number. A nil row marks a number
// that has no op.
func New[R row](rows []R) *Table[R] {
	var none R
	for n, r := range rows {
		if r != none {
			r.setNumber(entry.Number(n))
		}
	}
	return &Table[R]{byNumber: rows}
}

// Rows returns the rows in the order of their numbers. Callers must not change them.
func (t *Table[R]) Rows() []R {
	var none R
	var all []R
	for _, r := range t.byNumber {
		if r != none {
			all = append(all, r)
		}
	}
	return all
}

// Row returns the row of a number, or nil if this binary has none.
func (t *Table[R]) Row(n entry.Number) R {
	if uint64(n) >= uint64(len(t.byNumber)) {
		var none R
		return none
	}
	return t.byNumber[n]
}

// Known returns the row of a number, or an error if this binary has none.
func (t *Table[R]) Known(n entry.Number) (R, error) {
	var none R
	r := t.Row(n)
	if r == none {
		return none, fmt.Errorf("op number %d is not known to this binary: upgrade it", n)
	}
	return r, nil
}
