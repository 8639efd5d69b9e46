package op_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/optable"
)

// The leader's answer arrives unchanged, for every kind of op.
func TestCodecCarriesResults(t *testing.T) {
	t.Parallel()
	codec := op.NewCodec()
	for _, k := range op.Kinds() {
		for _, result := range []any{k.NewResult(), filled(k.NewResult())} {
			data, err := codec.EncodeResult(k.Number, result)
			if err != nil {
				t.Errorf("%s: %v", k.Name, err)
				continue
			}
			got, err := codec.DecodeResult(k.Number, data)
			if err != nil || !proto.Equal(got.(proto.Message), result.(proto.Message)) {
				t.Errorf("%s: %v became %v, %v", k.Name, result, got, err)
			}
		}
	}
}

// filled sets the numbers of a message and one element of each of its lists.
func filled(m proto.Message) proto.Message {
	r := m.ProtoReflect()
	fields := r.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case f.IsList() && f.Message() != nil:
			list := r.Mutable(f).List()
			filled(list.AppendMutable().Message().Interface())
		case f.IsList():
		case f.Message() != nil:
			filled(r.Mutable(f).Message().Interface())
		case f.Kind() == protoreflect.Uint32Kind:
			r.Set(f, protoreflect.ValueOfUint32(7))
		}
	}
	return m
}

func TestCodecCarriesOps(t *testing.T) {
	t.Parallel()
	for name, o := range valid(t) {
		got, err := op.NewCodec().Decode(entry.Op{Number: op.KindFor(o).Number, Bytes: encoded(t, o)})
		if err != nil || !proto.Equal(optable.Proposed(got), o) {
			t.Errorf("%s: %v became %v, %v", name, o, got, err)
		}
	}
}

func TestCodecRefuses(t *testing.T) {
	t.Parallel()
	codec := op.NewCodec()
	beyond := entry.Number(len(op.Kinds()) + 1)
	unknown := protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1)
	for name, c := range map[string]struct {
		try  func() (any, error)
		want string
	}{
		"an unknown op":                       {func() (any, error) { return codec.Decode(entry.Op{Number: beyond}) }, "is not known to this binary"},
		"the result of an unknown op":         {func() (any, error) { return codec.DecodeResult(beyond, nil) }, "is not known to this binary"},
		"an unknown field of a result":        {func() (any, error) { return codec.DecodeResult(1, unknown) }, "decode the result of enqueue: corvo.op.v1.EnqueueResult has a field 99"},
		"a result cut short":                  {func() (any, error) { return codec.DecodeResult(2, []byte{0x0a}) }, "decode the result of fetch"},
		"a result of another op":              {func() (any, error) { return codec.EncodeResult(1, &op.FetchResult{}) }, "a *op.FetchResult is no result of enqueue"},
		"no result":                           {func() (any, error) { return codec.EncodeResult(1, nil) }, "a <nil> is no result of enqueue"},
		"a result to encode of an unknown op": {func() (any, error) { return codec.EncodeResult(beyond, nil) }, "is not known to this binary"},
	} {
		if got, err := c.try(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v; want %q", name, got, err, c.want)
		}
	}
}

// FuzzResults: no bytes make the decoder of results panic.
func FuzzResults(f *testing.F) {
	for _, k := range op.Kinds() {
		data, err := proto.Marshal(filled(k.NewResult()))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint32(k.Number), data)
	}
	f.Fuzz(func(t *testing.T, number uint32, data []byte) {
		codec := op.NewCodec()
		result, err := codec.DecodeResult(entry.Number(number), data)
		if err != nil {
			return
		}
		if _, err := codec.EncodeResult(entry.Number(number), result); err != nil {
			t.Fatalf("it cannot be encoded again: %v", err)
		}
	})
}
