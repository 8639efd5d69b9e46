// Package optable keeps the ops of a replicated state machine in a table. The row of a number holds the op's
// name, its class, its messages and its Apply. Each plane has a table and may add columns to its rows.
//
// The package makes decoding strict: a number, a field or bytes that this binary does not know are an error,
// because replicas that ignored them would diverge. It also chooses the codec of a message (ADR 0064), and checks
// feature levels (ADR 0017). It knows no op. Of the tree it imports api, engine/entry and engine/pipeline only.
package optable

import (
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// Op is the message of one change.
type Op interface {
	proto.Message
	// Validate refuses an op that no state could accept. It looks only at the op.
	Validate() error
}

// Table holds rows of type R by number: a *Row, or a pointer to a struct that embeds one.
type Table[R row] struct {
	byNumber  []R
	byMessage func() map[protoreflect.MessageDescriptor]R
}

type row interface {
	comparable
	setNumber(entry.Number)
	place() (entry.Number, pipeline.Class)
	message() protoreflect.MessageDescriptor
	decodeOp([]byte) (Op, error)
	EncodeResult(any) ([]byte, error)
	DecodeResult([]byte) (proto.Message, error)
}

// New returns the table of the rows and gives each row its index as its number. A nil row marks a number that
// has no op. Row 0 must be nil, because no log takes the number 0.
func New[R row](rows []R) *Table[R] {
	var none R
	for n, r := range rows {
		if r != none {
			r.setNumber(entry.Number(n))
		}
	}
	t := &Table[R]{byNumber: rows}
	// Package variables are made before descriptors exist.
	t.byMessage = sync.OnceValue(func() map[protoreflect.MessageDescriptor]R {
		all := map[protoreflect.MessageDescriptor]R{}
		for _, r := range t.Rows() {
			all[r.message()] = r
		}
		return all
	})
	return t
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

// Of returns the row of an op, or nil if the table has none.
func (t *Table[R]) Of(o Op) R { return t.byMessage()[o.ProtoReflect().Descriptor()] }

// A Table has all methods of the engine's Codec except Repeats, which depends on more than the table.

// Decode decodes an op of an entry and returns its proposal. It refuses a number, a field or bytes that this
// binary does not know. The op shares no memory with the entry.
func (t *Table[R]) Decode(framed entry.Op) (pipeline.Op, error) {
	r, err := t.Known(framed.Number)
	if err != nil {
		return nil, err
	}
	o, err := r.decodeOp(framed.Bytes)
	if err != nil {
		return nil, err
	}
	return t.Proposal(o), nil
}

// EncodeResult encodes the result of the op with number n. It refuses a number that this binary does not know,
// and the result of another op.
func (t *Table[R]) EncodeResult(n entry.Number, result any) ([]byte, error) {
	r, err := t.Known(n)
	if err != nil {
		return nil, err
	}
	return r.EncodeResult(result)
}

// DecodeResult decodes the output of EncodeResult. It is as strict as Decode.
func (t *Table[R]) DecodeResult(n entry.Number, encoded []byte) (any, error) {
	r, err := t.Known(n)
	if err != nil {
		return nil, err
	}
	return r.DecodeResult(encoded)
}
