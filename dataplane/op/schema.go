package op

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// schema is what fields a message may have. The generated decoder keeps unknown
// fields aside in private; in an op they mean that a newer binary wrote it, and
// applying it without them would let replicas drift apart. Walking the wire form
// once finds them without reflection on each op.
type schema struct {
	name   protoreflect.FullName
	fields []field // by number
}

type field struct {
	known bool
	inner *schema // of a message field
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

// check reports the first field of an encoded message that this binary does not
// know. Wrong wire types are the decoder's to find.
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
