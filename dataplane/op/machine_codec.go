package op

import (
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/optable"
	"github.com/corvo/corvo/engine/pipeline"
)

// Codec encodes and decodes ops and results for the members of a group. It implements the engine's Codec. It
// has no state and refuses everything that it does not know.
type Codec struct{}

// Decode decodes an op with the package's Decode and wraps it as a proposal.
func (Codec) Decode(framed entry.Op) (pipeline.Op, error) {
	o, err := Decode(framed)
	if err != nil {
		return nil, err
	}
	return Proposal(o), nil
}

// EncodeResult encodes the result of an op with number n. It refuses a number that this binary does not know, and
// the result of another op.
func (Codec) EncodeResult(n entry.Number, result any) ([]byte, error) {
	k, err := table.Known(n)
	if err != nil {
		return nil, err
	}
	return k.EncodeResult(result)
}

// DecodeResult decodes the output of EncodeResult. It refuses a number, a field or bytes that this binary
// does not know.
func (Codec) DecodeResult(n entry.Number, encoded []byte) (any, error) {
	k, err := table.Known(n)
	if err != nil {
		return nil, err
	}
	return k.DecodeResult(encoded)
}

// Repeats reports whether o may be applied a second time, see Repeat. It is false for an op that this binary does
// not know.
func (Codec) Repeats(o pipeline.Op) bool {
	typed, ok := optable.Proposed(o).(Op)
	if !ok {
		return false
	}
	k := KindFor(typed)
	return k != nil && k.repeats(typed)
}
