package optable

import (
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// Row is one row of a table. Tx is the transaction that ops apply in. I is the interface that all ops of the
// table implement.
type Row[Tx any, I Op] struct {
	Number    entry.Number // set by New
	Name      string       // for people: metrics labels, errors, logs, audit records
	Class     pipeline.Class
	Since     uint32 // the lowest feature level of a group that may use the op
	New       func() I
	NewResult func() proto.Message
	Apply     func(Tx, I) (proto.Message, error)

	answers        func(result any) bool // whether result has the type that NewResult returns
	schema, result func() *schema
}

// NewRow returns the row of an op. The signature of apply determines the message types of the op and of its
// result.
func NewRow[I Op, Tx, O, R any, PO interface {
	*O
	Op
}, PR interface {
	*R
	proto.Message
}](name string, class pipeline.Class, apply func(PO, Tx) (PR, error)) *Row[Tx, I] {
	return &Row[Tx, I]{
		Name:      name,
		Class:     class,
		Since:     FirstLevel,
		New:       func() I { return any(PO(new(O))).(I) },
		NewResult: func() proto.Message { return PR(new(R)) },
		Apply: func(tx Tx, o I) (proto.Message, error) {
			result, err := apply(any(o).(PO), tx)
			if err != nil {
				return nil, err
			}
			return result, nil
		},
		answers: func(result any) bool { _, ok := result.(PR); return ok },
		// Package variables are made before descriptors exist.
		schema: sync.OnceValue(func() *schema { return schemaOf(PO(new(O)).ProtoReflect().Descriptor()) }),
		result: sync.OnceValue(func() *schema { return schemaOf(PR(new(R)).ProtoReflect().Descriptor()) }),
	}
}

// Decode decodes an op. It refuses a field or bytes that this binary does not know. The op shares no memory
// with data.
func (r *Row[Tx, I]) Decode(data []byte) (I, error) {
	o := r.New()
	if err := decode(r.schema(), data, o); err != nil {
		var none I
		return none, fmt.Errorf("decode %s: %w", r.Name, err)
	}
	return o, nil
}

func (r *Row[Tx, I]) decodeOp(data []byte) (Op, error) { return r.Decode(data) }

// EncodeResult encodes a result of the op.
func (r *Row[Tx, I]) EncodeResult(result any) ([]byte, error) {
	if !r.answers(result) {
		return nil, fmt.Errorf("a %T is no result of %s", result, r.Name)
	}
	data, err := Marshal(result.(proto.Message))
	if err != nil {
		return nil, fmt.Errorf("encode the result of %s: %w", r.Name, err)
	}
	return data, nil
}

// DecodeResult decodes the output of EncodeResult. It is as strict as Decode.
func (r *Row[Tx, I]) DecodeResult(data []byte) (proto.Message, error) {
	result := r.NewResult()
	if err := decode(r.result(), data, result); err != nil {
		return nil, fmt.Errorf("decode the result of %s: %w", r.Name, err)
	}
	return result, nil
}

func decode(s *schema, data []byte, into proto.Message) error {
	if err := s.check(data); err != nil {
		return err
	}
	return Unmarshal(data, into)
}

func (r *Row[Tx, I]) setNumber(n entry.Number) { r.Number = n }

func (r *Row[Tx, I]) place() (entry.Number, pipeline.Class) { return r.Number, r.Class }

func (r *Row[Tx, I]) message() protoreflect.MessageDescriptor {
	return r.New().ProtoReflect().Descriptor()
}
