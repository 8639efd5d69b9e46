package store

import (
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/optable"
)

// codec encodes ops and results for the other processes of the control plane. It has no state and refuses
// everything that it does not know.
type codec struct{}

var _ engine.Codec = codec{}

// Decode decodes an op as an entry holds it.
func (codec) Decode(framed entry.Op) (engine.Op, error) {
	o, err := decode(framed)
	if err != nil {
		return nil, err
	}
	return table.Proposal(o), nil
}

// EncodeResult encodes the result of an op with number n.
func (codec) EncodeResult(n entry.Number, result any) ([]byte, error) {
	k, err := table.Known(n)
	if err != nil {
		return nil, err
	}
	return k.EncodeResult(result)
}

// DecodeResult decodes the output of EncodeResult.
func (codec) DecodeResult(n entry.Number, encoded []byte) (any, error) {
	k, err := table.Known(n)
	if err != nil {
		return nil, err
	}
	return k.DecodeResult(encoded)
}

// Repeats reports whether the engine may propose an op again after one that may have been applied. It may if
// the op has an idempotency key, because the second op then returns the stored result. Any other op might
// undo a change made between the two, so its caller decides.
func (codec) Repeats(o engine.Op) bool {
	typed, ok := optable.Proposed(o).(op)
	return ok && typed.GetMeta().GetIdempotency() != nil
}
