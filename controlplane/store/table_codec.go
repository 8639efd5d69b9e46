package store

import (
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/optable"
)

// codec encodes ops and results for the other processes of the control plane.
type codec struct{ *optable.Table[*kind] }

var _ engine.Codec = codec{}

// Repeats reports whether the engine may propose an op again after one that may have been applied. It may if
// the op has an idempotency key, because the second op then returns the stored result. Any other op might
// undo a change made between the two, so its caller decides.
func (codec) Repeats(o engine.Op) bool {
	typed, ok := optable.Proposed(o).(op)
	return ok && typed.GetMeta().GetIdempotency() != nil
}
