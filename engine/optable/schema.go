package optable

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// schema lists the fields of a message. An unknown field in an op means that a newer binary wrote it; applying
// the op without it would let replicas diverge. The decoders keep unknown fields in a private place, and
// protobuf-go also treats a field with a wrong wire type as unknown. A walk over the wire form finds both
// without reflection on each op.
type schema struct {
	name   protoreflect.FullName
	fields []field // by number
}

type field struct {
	wires uint8   // a bit for each wire type that the field may have; 0 = there is no such field
	inner *schema // nil unless the field is a message
}

func schemaOf(d protoreflect.MessageDescriptor) *schema {
	s := &schema{name: d.FullName()}
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		for int(f.Number()) >= len(s.fields) {
			s.fields = append(s.fields, field{})
		}
		to := &s.fields[f.Number()]
		to.wires = 1 << wireOf(f.Kind())
		if f.IsList() {
			to.wires |= 1 << protowire.BytesType // a list of numbers may be packed
		}
		if f.Message() != nil {
			to.inner = schemaOf(f.Message())
		}
	}
	return s
}

// wireOf returns the wire type of one value of a kind.
func wireOf(k protoreflect.Kind) protowire.Type {
	switch k {
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return protowire.Fixed32Type
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return protowire.Fixed64Type
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		return protowire.BytesType
	}
	return protowire.VarintType
}

// check returns an error for the first field of an encoded message that this binary does not know or that has
// another wire type than this binary expects.
func (s *schema) check(data []byte) error {
	for len(data) > 0 {
		number, wire, n := protowire.ConsumeTag(data)
		if n < 0 {
			return fmt.Errorf("%s: %w", s.name, protowire.ParseError(n))
		}
		if int(number) >= len(s.fields) || s.fields[number].wires == 0 {
			return fmt.Errorf("%s has a field %d that this binary does not know", s.name, number)
		}
		f := s.fields[number]
		if f.wires>>wire&1 == 0 {
			return fmt.Errorf("%s, field %d has the wrong wire type %d", s.name, number, wire)
		}
		data = data[n:]
		if f.inner != nil {
			value, n := protowire.ConsumeBytes(data)
			if n < 0 {
				return fmt.Errorf("%s, field %d: %w", s.name, number, protowire.ParseError(n))
			}
			if err := f.inner.check(value); err != nil {
				return err
			}
			data = data[n:]
			continue
		}
		n = protowire.ConsumeFieldValue(number, wire, data)
		if n < 0 {
			return fmt.Errorf("%s, field %d: %w", s.name, number, protowire.ParseError(n))
		}
		data = data[n:]
	}
	return nil
}
