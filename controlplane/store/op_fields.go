package store

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// fields lists the fields that a message may have, by number. The generated decoder keeps unknown fields and
// reports none. In an op an unknown field means that a newer binary wrote it, and replicas that ignored the
// field would diverge.
type fields struct {
	name  protoreflect.FullName
	known map[protowire.Number]*fields // the fields of a message field; nil for any other field
}

func fieldsOf(d protoreflect.MessageDescriptor) *fields {
	f := &fields{name: d.FullName(), known: map[protowire.Number]*fields{}}
	for i := range d.Fields().Len() {
		field := d.Fields().Get(i)
		f.known[field.Number()] = nil
		if field.Message() != nil {
			f.known[field.Number()] = fieldsOf(field.Message())
		}
	}
	return f
}

// check reports the first field of an encoded message that this binary does not know. The decoder reports
// wrong wire types.
func (f *fields) check(data []byte) error {
	for len(data) > 0 {
		number, wire, n := protowire.ConsumeTag(data)
		if n < 0 {
			return fmt.Errorf("%s: %w", f.name, protowire.ParseError(n))
		}
		inner, known := f.known[number]
		if !known {
			return fmt.Errorf("%s has a field %d that this binary does not know", f.name, number)
		}
		value := data[n:]
		size := protowire.ConsumeFieldValue(number, wire, value)
		if size < 0 {
			return fmt.Errorf("%s, field %d: %w", f.name, number, protowire.ParseError(size))
		}
		if inner != nil && wire == protowire.BytesType {
			message, _ := protowire.ConsumeBytes(value)
			if err := inner.check(message); err != nil {
				return err
			}
		}
		data = value[size:]
	}
	return nil
}
