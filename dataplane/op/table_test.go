package op_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/optable"
	"github.com/corvo/corvo/engine/pipeline"
)

var classWords = map[pipeline.Class]string{
	pipeline.ClassSettle:  "settle",
	pipeline.ClassEnqueue: "enqueue",
	pipeline.ClassFetch:   "fetch",
	pipeline.ClassManage:  "manage",
}

func TestTableIsGolden(t *testing.T) {
	t.Parallel()
	const golden = "testdata/ops.golden"
	var b strings.Builder
	for _, k := range op.Kinds() {
		request, result := k.New().ProtoReflect().Descriptor(), k.NewResult().ProtoReflect().Descriptor()
		fmt.Fprintf(&b, "%-3d %-12s level %d  %-8s %-9s %-24s %s\n", k.Number, k.Name, k.Since, classWords[k.Class], k.Repeats, request.FullName(), result.FullName())
	}
	if *rewrite {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the op table differs from %s; numbers are permanent, so only lines at the end may be new:\n%s", golden, b.String())
	}
}

// The table finds each op by its number and by its message, field 1 of each is its Meta, and no message has a
// map.
func TestTableIsWhole(t *testing.T) {
	t.Parallel()
	for i, k := range op.Kinds() {
		o := k.New()
		if int(k.Number) != i+1 || op.KindOf(k.Number) != k || op.KindFor(o) != k {
			t.Errorf("%s stands at %d and is number %d", k.Name, i+1, k.Number)
		}
		if p := op.Proposal(o); p.Number() != k.Number || p.Class() != k.Class {
			t.Errorf("%s is proposed with number %d and class %d", k.Name, p.Number(), p.Class())
		}
		d := o.ProtoReflect().Descriptor()
		if f := d.Fields().ByNumber(1); f == nil || f.Message() == nil || f.Message().FullName() != "corvo.op.v1.Meta" {
			t.Errorf("field 1 of %s is no Meta", d.FullName())
		}
		for f := range d.Fields().Len() {
			if d.Fields().Get(f).IsMap() {
				t.Errorf("%s is a map: its order is not fixed", d.Fields().Get(f).FullName())
			}
		}
	}
	for _, n := range []entry.Number{0, entry.Number(len(op.Kinds()) + 1), 1<<32 - 1} {
		if k := op.KindOf(n); k != nil {
			t.Errorf("number %d is %s", n, k.Name)
		}
	}
}

// The bytes of ops and results are the same with either codec, and the same as in earlier binaries, because
// replicas with different binaries compare the ops and results that they store.
func TestEncodingsAreGolden(t *testing.T) {
	t.Parallel()
	const golden = "testdata/encodings.golden"
	ops := valid(t)
	var b strings.Builder
	for _, k := range op.Kinds() {
		for _, m := range []proto.Message{ops[k.Name], filled(k.New()), filled(k.NewResult())} {
			data, err := optable.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			reflected, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(data, reflected) {
				t.Errorf("%s: %x is %x with the other codec", k.Name, data, reflected)
			}
			fmt.Fprintf(&b, "%-20s %-40s %4d bytes  %x\n", k.Name, m.ProtoReflect().Descriptor().FullName(), len(data), sha256.Sum256(data))
		}
	}
	if *rewrite {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("encodings differ from %s; a new field may change them, but a new codec must not (ADR 0064):\n%s", golden, b.String())
	}
}

func TestDecodeRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	field := func(number protowire.Number, value []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
	}
	for _, c := range []struct {
		name   string
		number entry.Number
		bytes  []byte
		want   string
	}{
		{"unknown number", 99, nil, "op number 99 is not known"},
		{"unknown field", 1, field(9, nil), "corvo.op.v1.Enqueue has a field 9 "},
		{"unknown field of Meta", 10, field(1, field(77, nil)), "corvo.op.v1.Meta has a field 77 "},
		{"unknown field deep inside", 3, field(2, field(4, field(19, nil))), "corvo.job.v1.Usage has a field 19 "},
		{"unknown group", 10, protowire.AppendTag(nil, 5, protowire.StartGroupType), "corvo.op.v1.StartTerm has a field 5 "},
		{"cut short", 1, field(2, []byte("xx"))[:3], "decode enqueue: "},
		{"cut in a tag", 1, []byte{0x80}, "decode enqueue: "},
		{"wrong wire type", 1, protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), 1), "field 2 has the wrong wire type 0"},
	} {
		_, err := op.Decode(entry.Op{Number: c.number, Bytes: c.bytes})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// encoded returns an op in the form of an entry.
func encoded(t testing.TB, o op.Op) []byte {
	t.Helper()
	data, err := optable.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// FuzzOps checks that no bytes of any op make the decoder or Validate panic, and that every decoded op encodes to
// itself.
func FuzzOps(f *testing.F) {
	ops := valid(f)
	for _, k := range op.Kinds() {
		f.Add(uint32(k.Number), []byte{})
		f.Add(uint32(k.Number), encoded(f, ops[k.Name]))
	}
	enqueue := (&world{t: f, clockNs: epochNs}).newJobs("q", 2)
	f.Add(uint32(op.KindFor(enqueue).Number), encoded(f, enqueue))
	f.Fuzz(func(t *testing.T, number uint32, data []byte) {
		o, err := op.Decode(entry.Op{Number: entry.Number(number), Bytes: data})
		if err != nil {
			return
		}
		_ = o.Validate()
		p := op.Proposal(o)
		again := make([]byte, p.SizeVT())
		if n, err := p.MarshalToSizedBufferVT(again); err != nil || n != len(again) {
			t.Fatalf("encoded again it takes %d of %d bytes: %v", n, len(again), err)
		}
		if _, err := op.Decode(entry.Op{Number: entry.Number(number), Bytes: again}); err != nil {
			t.Fatalf("encoded again it does not decode: %v", err)
		}
	})
}
