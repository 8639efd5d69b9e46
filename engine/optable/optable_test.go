package optable_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/optable"
	"github.com/corvo/corvo/engine/pipeline"
)

// wait is an op whose message has no generated codec.
type wait struct{ durationpb.Duration }

func (*wait) Validate() error { return nil }

func (w *wait) Apply(now int64) (*timestamppb.Timestamp, error) {
	return &timestamppb.Timestamp{Seconds: now + w.Seconds}, nil
}

type row = optable.Row[int64, *wait]

func newTable() *optable.Table[*row] {
	return optable.New([]*row{2: optable.NewRow[*wait]("wait", pipeline.ClassManage, (*wait).Apply)})
}

func TestATableNumbersItsRows(t *testing.T) {
	t.Parallel()
	table := newTable()
	rows := table.Rows()
	if len(rows) != 1 {
		t.Fatalf("rows are %v", rows)
	}
	if r := rows[0]; r.Number != 2 || r.Name != "wait" || r.Class != pipeline.ClassManage {
		t.Errorf("the row is number %d, %s, of class %d", r.Number, r.Name, r.Class)
	}
	if table.Row(2) != rows[0] {
		t.Error("number 2 has another row")
	}
	for _, n := range []entry.Number{0, 1, 3, 1<<32 - 1} {
		if r := table.Row(n); r != nil {
			t.Errorf("number %d is %s", n, r.Name)
		}
		if _, err := table.Known(n); err == nil || !strings.Contains(err.Error(), "is not known to this binary") {
			t.Errorf("number %d: %v", n, err)
		}
	}
	answer, err := rows[0].Apply(10, &wait{Duration: durationpb.Duration{Seconds: 5}})
	if err != nil {
		t.Fatal(err)
	}
	if got := answer.(*timestamppb.Timestamp).Seconds; got != 15 {
		t.Errorf("applied to %d", got)
	}
}

func TestDecodeIsStrict(t *testing.T) {
	t.Parallel()
	r := newTable().Row(2)
	number := func(field protowire.Number) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.VarintType), 1)
	}
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"unknown field", number(9), "google.protobuf.Duration has a field 9 that this binary does not know"},
		{"wrong wire type", protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte("x")), "field 1 has the wrong wire type 2"},
		{"group", protowire.AppendTag(nil, 1, protowire.StartGroupType), "field 1 has the wrong wire type 3"},
		{"half a tag", []byte{0xff}, "decode wait: "},
		{"half a value", number(1)[:1], "decode wait: "},
	} {
		if _, err := r.Decode(c.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := r.DecodeResult(number(9)); err == nil || !strings.Contains(err.Error(), "decode the result of wait: google.protobuf.Timestamp has a field 9") {
		t.Errorf("result: %v", err)
	}
	o, err := r.Decode(number(1))
	if err != nil {
		t.Fatal(err)
	}
	if o.Seconds != 1 {
		t.Errorf("decoded %d", o.Seconds)
	}
}

func TestResultsHaveTheTypeOfTheRow(t *testing.T) {
	t.Parallel()
	r := newTable().Row(2)
	if _, err := r.EncodeResult(&durationpb.Duration{}); err == nil {
		t.Error("the row encoded the result of another op")
	}
	data, err := r.EncodeResult(&timestamppb.Timestamp{Seconds: 1})
	if err != nil {
		t.Fatal(err)
	}
	read, err := r.DecodeResult(data)
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(read, &timestamppb.Timestamp{Seconds: 1}) {
		t.Errorf("decoded %v", read)
	}
}

// ordered is an op that is wrapped to wait for its turn.
type ordered struct {
	optable.Op
	admitted *bool
}

func (o ordered) AdmitInOrder(admit func() error) error {
	*o.admitted = true
	return admit()
}

func TestAProposalEncodesTheOp(t *testing.T) {
	t.Parallel()
	table := newTable()
	admitted := false
	w := &wait{Duration: durationpb.Duration{Seconds: 300, Nanos: 5}}
	for _, o := range []optable.Op{w, ordered{w, &admitted}} {
		p := table.Proposal(o)
		if p.Number() != 2 || p.Class() != pipeline.ClassManage {
			t.Errorf("%T has number %d and class %d", o, p.Number(), p.Class())
		}
		if got := optable.Proposed(p); got != o {
			t.Errorf("%T proposes a %T", o, got)
		}
		to := make([]byte, p.SizeVT())
		n, err := p.MarshalToSizedBufferVT(to)
		if err != nil || n != len(to) {
			t.Fatalf("%T: %d of %d bytes, %v", o, n, len(to), err)
		}
		read, err := table.Row(2).Decode(to)
		if err != nil {
			t.Fatal(err)
		}
		if read.Seconds != 300 || read.Nanos != 5 {
			t.Errorf("decoded %v", read)
		}
		if n, err := p.MarshalToSizedBufferVT(make([]byte, len(to)-1)); err == nil {
			t.Errorf("%d bytes were written into a buffer that is too small", n)
		}
		_, waits := o.(pipeline.OrderedOp)
		in, ok := p.(pipeline.OrderedOp)
		if ok != waits {
			t.Fatalf("the proposal of a %T waits: %v", o, ok)
		}
		if waits && (in.AdmitInOrder(func() error { return nil }) != nil || !admitted) {
			t.Error("the op did not decide about its admission")
		}
	}
}

// instant is the message of another table.
type instant struct{ timestamppb.Timestamp }

func (*instant) Validate() error { return nil }

func TestAnOpOfAnotherTableIsNotEncoded(t *testing.T) {
	t.Parallel()
	table := newTable()
	if r := table.Of(&instant{}); r != nil {
		t.Errorf("its row is %s", r.Name)
	}
	var b entry.Builder
	if p := table.Proposal(&instant{}); b.Add(p.Number(), p.SizeVT(), p) == nil {
		t.Error("an entry took an op without a number")
	}
	if optable.Proposed(nil) != nil {
		t.Error("a proposal of another kind has an op")
	}
}

// note is an op with a text, which its Validate does not check.
type note struct{ wrapperspb.StringValue }

func (*note) Validate() error { return nil }

func (*note) Apply(int64) (*durationpb.Duration, error) { return &durationpb.Duration{}, nil }

// TestAProposalWithoutUTF8IsInvalid checks that Validate refuses a text that the codec refuses, so that the
// op never enters the backlog.
func TestAProposalWithoutUTF8IsInvalid(t *testing.T) {
	t.Parallel()
	table := optable.New([]*optable.Row[int64, *note]{1: optable.NewRow[*note]("note", pipeline.ClassManage, (*note).Apply)})
	for text, want := range map[string]string{"caf\u00e9": "", "caf\xe9": "contains invalid UTF-8"} {
		err := table.Proposal(&note{StringValue: wrapperspb.StringValue{Value: text}}).Validate()
		if want == "" && err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
