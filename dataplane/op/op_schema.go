package op

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// schema lists the fields of a message. An unknown field in an op means that a newer binary wrote it; applying
// the op without it would let replicas diverge. The generated decoder keeps unknown fields in a private place. A
// walk over the wire form finds them without reflection on each op.
type schema struct {
	name   protoreflect.FullName
	fields []field // by number
}

type field struct {
	known bool
	inner *schema // nil unless the field is a message
}

func schemaOf(d protoreflect.MessageDescriptor) *schema {
	s := &schema{name: d.FullName()}
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		for int(f.Number()) >= len(s.fields) {
			s.fields = append(s.fields, field{})
		}
		s.fields[f.Number()].known = true
		if f.Message() != nil {
			s.fields[f.Number()].inner = schemaOf(f.Message())
		}
	}
	return s
}

// check returns an error for the first field of an encoded message that this binary does not know. The decoder
// finds wrong wire types.
func (s *schema) check(data []byte) error {
	for len(data) > 0 {
		number, wire, n := protowire.ConsumeTag(data)
		if n < 0 {
			return fmt.Errorf("%s: %w", s.name, protowire.ParseError(n))
		}
		if int(number) >= len(s.fields) || !s.fields[number].known {
			return fmt.Errorf("%s has a field %d that this binary does not know", s.name, number)
		}
		data = data[n:]
		if inner := s.fields[number].inner; inner != nil && wire == protowire.BytesType {
			value, n := protowire.ConsumeBytes(data)
			if n < 0 {
				return fmt.Errorf("%s, field %d: %w", s.name, number, protowire.ParseError(n))
			}
			if err := inner.check(value); err != nil {
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
