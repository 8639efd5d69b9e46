package op

import (
	"github.com/corvo/corvo/engine/optable"
	"github.com/corvo/corvo/engine/pipeline"
)

// Codec encodes and decodes ops and results for the members of a group. It implements the engine's Codec.
type Codec struct{ *optable.Table[*Kind] }

// NewCodec returns the codec of the package's ops.
func NewCodec() Codec { return Codec{table} }

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
