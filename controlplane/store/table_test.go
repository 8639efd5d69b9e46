package store

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/optable"
	"github.com/corvo/corvo/engine/pipeline"
)

func TestTableIsGolden(t *testing.T) {
	t.Parallel()
	const golden = "testdata/ops.golden"
	words := map[pipeline.Class]string{urgent: "urgent", people: "people", bulk: "bulk"}
	var b strings.Builder
	for _, k := range table.Rows() {
		request, result := k.New().ProtoReflect().Descriptor(), k.NewResult().ProtoReflect().Descriptor()
		fmt.Fprintf(&b, "%-3d %-18s %-7s %-40s %s\n", k.Number, k.Name, words[k.Class], request.FullName(), result.FullName())
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

// The table finds each op by its number and by its message, field 1 of each op is its Meta, and no message has a
// map or a float.
func TestTableIsWhole(t *testing.T) {
	t.Parallel()
	for _, k := range table.Rows() {
		o := k.New()
		if table.Row(k.Number) != k || table.Of(o) != k {
			t.Errorf("%s, number %d, is not found by its number and its message", k.Name, k.Number)
		}
		d := o.ProtoReflect().Descriptor()
		if f := d.Fields().ByNumber(1); f == nil || f.Message() == nil || f.Message().FullName() != "corvo.controlplane.v1.Meta" {
			t.Errorf("field 1 of %s is no Meta", d.FullName())
		}
		for f := range d.Fields().Len() {
			if field := d.Fields().Get(f); field.IsMap() || field.Kind().String() == "double" || field.Kind().String() == "float" {
				t.Errorf("%s is a map or a float", field.FullName())
			}
		}
	}
	for _, n := range []entry.Number{0, numRemoveAsideUsage + 1, 1<<32 - 1} {
		if k := table.Row(n); k != nil {
			t.Errorf("number %d is %s", n, k.Name)
		}
	}
}

// raw holds encoded bytes under an op's number. It is a proposal of its own.
type raw struct {
	*StartTerm
	number entry.Number
	data   []byte
}

func (r raw) Number() entry.Number  { return r.number }
func (r raw) Class() pipeline.Class { return urgent }
func (r raw) SizeVT() int           { return len(r.data) }
func (r raw) MarshalToSizedBufferVT(to []byte) (int, error) {
	return copy(to, r.data), nil
}

// An entry that a newer binary may have written stops the machine before it applies any part, because
// replicas that ignored a part would diverge.
func TestMachineStops(t *testing.T) {
	t.Parallel()
	field := func(number protowire.Number, value []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
	}
	for _, c := range []struct {
		name  string
		level uint32
		op    op
		want  string
	}{
		{"higher level", FeatureLevel + 1, &StartTerm{}, "feature level 2, this binary knows 1"},
		{"unknown number", FeatureLevel, raw{number: 99}, "op 2 of 2: op number 99 is not known"},
		{"unknown field", FeatureLevel, raw{number: numCreateOrg, data: field(9, nil)}, "CreateOrg has a field 9 "},
		{"unknown field of Meta", FeatureLevel, raw{number: numStartTerm, data: field(1, field(77, nil))}, "Meta has a field 77 "},
		{"unknown field deep inside", FeatureLevel, raw{number: numApplyUsage, data: field(7, field(19, nil))}, "UsageRow has a field 19 "},
		{"cut short", FeatureLevel, raw{number: numCreateOrg, data: field(2, []byte("xx"))[:3]}, "decode create-org"},
		{"garbage", FeatureLevel, raw{number: numCreateOrg, data: []byte{0xff}}, "decode create-org"},
		{"wrong wire type", FeatureLevel, raw{number: numCreateOrg, data: protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), 1)}, "CreateOrg, field 2 has the wrong wire type 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.ok(newOrg("acme"))
			before := w.dump()
			_, err := w.try(encode(t, c.level, w.clockNs, newOrg("other"), c.op))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("applied with %v, want %q", err, c.want)
			}
			if got := w.Applied(); got.Index != 1 {
				t.Errorf("applied is %d", got.Index)
			}
			if diff := difference(before, w.dump()); diff != "" {
				t.Errorf("the state has changed: %s", diff)
			}
		})
	}
}

// An op that violates Validate cannot be refused any more, so it stops the machine. The machine applies no
// part of its entry, accepts no further entry and confirms no flush.
func TestImpossibleOpStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"))
	before := w.dump()
	bad := newKey("ns", "ns_x", "k1")
	bad.Credential.Hash = []byte("short")
	ns := newNamespace("org_acme", "x")
	if _, err := w.try(encode(t, FeatureLevel, w.clockNs, ns, bad)); err == nil || !strings.Contains(err.Error(), "op 2 of 2 (create-credential)") {
		t.Errorf("applied with %v", err)
	}
	if diff := difference(before, w.dump()); diff != "" {
		t.Errorf("half an entry is there: %s", diff)
	}
	if err := w.Flush(); err == nil {
		t.Error("a broken machine vouches for its state")
	}
	if _, err := w.try(encode(t, FeatureLevel, w.clockNs, newOrg("other"))); err == nil {
		t.Error("a broken machine goes on")
	}
	// The changes before it are intact.
	w.reopen()
	w.ok(ns)
}

// A refused op leaves nothing, and the other ops of its entry are applied in order, with results by position.
func TestRefusalWithinAnEntry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tooLate := newKey("org", "org_acme", "t1")
	tooLate.Credential.ExpiresNs = 1
	results := w.apply(newOrg("acme"), newOrg("acme"), newNamespace("org_acme", "a"), newNamespace("org_none", "b"), tooLate, newKey("ns", "ns_a", "k1"))
	want := []string{"*store.CreateOrgResult", "*api.Error", "*store.CreateNamespaceResult", "*api.Error", "*api.Error", "*store.CreateCredentialResult"}
	for i, r := range results {
		if got := fmt.Sprintf("%T", r); got != want[i] {
			t.Errorf("result %d is a %s, want a %s", i, got, want[i])
		}
	}
	if _, ok := w.credential("t1"); ok {
		t.Error("a refused credential is in the cache")
	}
	if n := w.head.Load().auditSeq; n != 3 {
		t.Errorf("%d audit rows, want 3", n)
	}
	if err := w.store().VerifyAudit(t.Context()); err != nil {
		t.Error(err)
	}
}

// FuzzOps checks that no bytes of an op make the decoder or Validate panic, and that applying a valid op does
// not stop the machine.
func FuzzOps(f *testing.F) {
	for _, k := range table.Rows() {
		f.Add(uint32(k.Number), []byte{})
	}
	for _, o := range []op{newOrg("a"), newNamespace("org_a", "n"), newHost("h"), newKey("ns", "ns_n", "k"), frame("ns_n", 1, 2, usageRow("q", "m", 1)), credited("a", "c", 1), closing("2023-10"), correcting("u", 1)} {
		data, err := optable.Marshal(o)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint32(table.Of(o).Number), data)
	}
	f.Fuzz(func(t *testing.T, number uint32, data []byte) {
		w := newWorld(t)
		d, err := w.decode(entry.Op{Number: entry.Number(number), Bytes: data}, FeatureLevel)
		if err != nil || d.op.Validate() != nil {
			return
		}
		w.apply(newOrg("a"), newNamespace("org_a", "n"), newHost("h"), newKey("ns", "ns_n", "k"))
		w.apply(d.op)
	})
}
