package op

import (
	"fmt"

	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// Codec encodes and decodes ops and results for the members of a group. It implements the engine's Codec. It
// has no state and refuses everything that it does not know.
type Codec struct{}

// Decode decodes an op with the package's Decode.
func (Codec) Decode(framed entry.Op) (pipeline.Op, error) {
	o, err := Decode(framed)
	if err != nil {
		return nil, err
	}
	return o, nil
}

// EncodeResult encodes the result of an op with number n.
func (Codec) EncodeResult(n entry.Number, result any) ([]byte, error) {
	k := KindOf(n)
	if k == nil {
		return nil, fmt.Errorf("there is no op %d whose result could be encoded", n)
	}
	if !k.answers(result) {
		return nil, fmt.Errorf("a %T is no result of %s", result, k.Name)
	}
	data, err := result.(Result).MarshalVT()
	if err != nil {
		return nil, fmt.Errorf("encode the result of %s: %w", k.Name, err)
	}
	return data, nil
}

// DecodeResult decodes the output of EncodeResult. It refuses a number, a field or bytes that this binary
// does not know.
func (Codec) DecodeResult(n entry.Number, encoded []byte) (any, error) {
	k := KindOf(n)
	if k == nil {
		return nil, fmt.Errorf("op number %d is not known to this binary: upgrade it", n)
	}
	if err := k.resultSchema().check(encoded); err != nil {
		return nil, fmt.Errorf("decode the result of %s: %w", k.Name, err)
	}
	result := k.NewResult()
	if err := result.UnmarshalVT(encoded); err != nil {
		return nil, fmt.Errorf("decode the result of %s: %w", k.Name, err)
	}
	return result, nil
}

// Repeats reports whether o may be applied a second time, see Repeat.
func (Codec) Repeats(o pipeline.Op) bool {
	typed, ok := o.(Op)
	if !ok {
		return false
	}
	k := KindOf(typed.Number())
	return k != nil && k.repeats(typed)
}
