package entry

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

// text is a message whose encoding is its own bytes.
type text string

func (m text) MarshalToSizedBufferVT(to []byte) (int, error) { return copy(to, m), nil }

type failing struct{ err error }

func (m failing) MarshalToSizedBufferVT([]byte) (int, error) { return 0, m.err }

func build(t interface{ Fatal(...any) }, h Header, ops ...Op) []byte {
	var b Builder
	for _, o := range ops {
		if err := b.Add(o.Number, len(o.Bytes), text(o.Bytes)); err != nil {
			t.Fatal(err)
		}
	}
	return b.Finish(h)
}

func sequence(from byte, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = from + byte(i)
	}
	return b
}

var full = Header{
	Level: 300, Incarnation: Incarnation(sequence(1, 16)), ClockNs: 1_700_000_000_123_456_789,
	Seed: Seed(sequence(0x40, 16)), Trace: Trace(sequence(0x80, 25)),
}

// TestGolden pins the encoding, because replicas and stored logs depend on it. It may change only together
// with Version.
func TestGolden(t *testing.T) {
	t.Parallel()
	for name, encoded := range map[string][]byte{
		"empty": build(t, Header{}),
		"full":  build(t, full, Op{1, []byte("one")}, Op{300, nil}, Op{1<<32 - 1, bytes.Repeat([]byte("x"), 200)}),
	} {
		path := filepath.Join("testdata", name+".hex")
		got := hex.Dump(encoded)
		if *rewrite {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s is\n%swant\n%s", name, got, want)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := Entry{
			Header: Header{
				Level:   rapid.Uint32().Draw(t, "level"),
				ClockNs: rapid.Int64().Draw(t, "clock"),
			},
			Ops: []Op{},
		}
		copy(want.Incarnation[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "incarnation"))
		copy(want.Seed[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "seed"))
		copy(want.Trace[:], rapid.SliceOfN(rapid.Byte(), 0, 25).Draw(t, "trace"))
		for range rapid.IntRange(0, 5).Draw(t, "ops") {
			want.Ops = append(want.Ops, Op{
				Number: Number(rapid.Uint32Min(1).Draw(t, "number")),
				Bytes:  rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "bytes"),
			})
		}
		got, err := Decode(build(t, want.Header, want.Ops...))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

func TestAddFailsWithoutTrace(t *testing.T) {
	t.Parallel()
	bad := errors.New("bad")
	var b Builder
	for _, add := range []func() error{
		func() error { return b.Add(1, 3, text("one")) },
		func() error { return b.Add(2, 9, failing{bad}) },
		func() error { return b.Add(2, 9, text("short")) },
		func() error { return b.Add(0, 4, text("zero")) },
		func() error { return b.Add(3, 5, text("three")) },
	} {
		_ = add() // the checks below tell which of them failed
	}
	if b.Count() != 2 {
		t.Errorf("%d ops counted", b.Count())
	}
	if err := b.Add(2, 9, failing{bad}); !errors.Is(err, bad) {
		t.Errorf("failed with %v", err)
	}
	want := build(t, full, Op{1, []byte("one")}, Op{3, []byte("three")})
	if got := b.Finish(full); !bytes.Equal(got, want) {
		t.Errorf("got\n%swant\n%s", hex.Dump(got), hex.Dump(want))
	}
	if got := b.Finish(full); !bytes.Equal(got, build(t, full)) {
		t.Error("a finished builder is not empty")
	}
}

// TestFinishGivesMemoryAway checks that a finished entry shares no memory with the builder.
func TestFinishGivesMemoryAway(t *testing.T) {
	t.Parallel()
	var b Builder
	if err := b.Add(1, 3, text("one")); err != nil {
		t.Fatal(err)
	}
	first := b.Finish(full)
	before := bytes.Clone(first)
	if err := b.Add(1, 3, text("two")); err != nil {
		t.Fatal(err)
	}
	b.Finish(Header{})
	if !bytes.Equal(first, before) {
		t.Error("a finished entry changed")
	}
}

func TestEveryFlippedBitIsFound(t *testing.T) {
	t.Parallel()
	encoded := build(t, full, Op{1, []byte("one")})
	for i := range len(encoded) * 8 {
		broken := bytes.Clone(encoded)
		broken[i/8] ^= 1 << (i % 8)
		if _, err := Decode(broken); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("bit %d: %v", i, err)
		}
	}
	for n := range len(encoded) {
		if _, err := Decode(encoded[:n]); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("first %d bytes: %v", n, err)
		}
	}
}

// TestDecodeRefuses decodes malformed entries with a correct checksum: they come from a bug or an attack, not
// from a failing disk.
func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	sum := func(body []byte) []byte {
		return binary.LittleEndian.AppendUint32(body, crc32.Checksum(body, castagnoli))
	}
	head := func(level uint64, trace, sequences byte) []byte {
		b := binary.AppendUvarint([]byte{Version}, level)
		b = append(b, make([]byte, 16+8+16)...)
		return append(b, trace, sequences)
	}
	for want, body := range map[string][]byte{
		"version 2":              append([]byte{2}, head(1, 0, 0)[1:]...),
		"feature level":          head(1<<32, 0, 0),
		"trace of 24 bytes":      head(1, 24, 0),
		"3 bytes of sequences":   append(head(1, 0, 3), 1, 2, 3),
		"ops in 0 bytes":         append(head(1, 0, 0), 1),
		"op number 0":            append(head(1, 0, 0), 1, 0, 0),
		"op of 5 bytes, 1 left":  append(head(1, 0, 0), 1, 1, 5, 9),
		"1 bytes after the last": append(head(1, 0, 0), 0, 9),
		"op number 4294967296":   append(append(head(1, 0, 0), 1), 0x80, 0x80, 0x80, 0x80, 0x10, 0),
		"bad varint":             append(head(1, 0, 0), 0x80),
	} {
		_, err := Decode(sum(body))
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), want) {
			t.Errorf("refused with %v, want %s", err, want)
		}
	}
}

func TestIncarnationText(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(full.Incarnation)
	if err != nil || string(data) != `"0102030405060708090a0b0c0d0e0f10"` {
		t.Fatalf("%s, %v", data, err)
	}
	var back Incarnation
	if err := json.Unmarshal(data, &back); err != nil || back != full.Incarnation {
		t.Errorf("read back as %v, %v", back, err)
	}
	for _, bad := range []string{"", "01", strings.Repeat("0", 31) + "x"} {
		if err := back.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("read %q", bad)
		}
	}
	if fmt.Sprint(full.Incarnation) != "0102030405060708090a0b0c0d0e0f10" {
		t.Error(full.Incarnation)
	}
}

// FuzzDecode checks that no input makes Decode panic, and that an accepted entry keeps its content when it is
// encoded and decoded again. The checksum is recomputed, because the fuzzer would never guess it.
func FuzzDecode(f *testing.F) {
	for _, encoded := range [][]byte{
		build(f, Header{}),
		build(f, full, Op{1, []byte("one")}, Op{300, nil}),
	} {
		f.Add(encoded[:len(encoded)-4])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := Decode(binary.LittleEndian.AppendUint32(bytes.Clone(body), crc32.Checksum(body, castagnoli)))
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		again, err := Decode(build(t, e.Header, e.Ops...))
		if err != nil {
			t.Fatal(err)
		}
		if len(e.Ops) != len(again.Ops) || e.Header != again.Header {
			t.Fatalf("%+v became %+v", e, again)
		}
		for i := range e.Ops {
			if e.Ops[i].Number != again.Ops[i].Number || !bytes.Equal(e.Ops[i].Bytes, again.Ops[i].Bytes) {
				t.Fatalf("op %d: %+v became %+v", i, e.Ops[i], again.Ops[i])
			}
		}
	})
}
