// Package entry encodes and decodes one Raft log entry: a header and a list of ops, each with its number and
// its length. The package interprets no op; the package that owns a number decodes its bytes. It imports only
// the standard library.
//
// Layout, integers little-endian or unsigned varints as marked:
//
//	version     byte
//	level       uvarint   feature level the entry was written at
//	incarnation 16 bytes
//	clock       8 bytes   leader's clock, Unix nanoseconds
//	seed        16 bytes  source of ids created in apply
//	trace       byte n, n bytes   W3C trace context of the commit's span; n is 0 or 25
//	sequences   uvarint n, n bytes  reserved for dense per-queue sequences; n is 0
//	ops         uvarint count, then count times: number uvarint, length uvarint, bytes
//	crc         4 bytes   CRC-32C of all before
package entry

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
)

// Version is the layout that this package writes. Decode refuses every other.
const Version = 1

// MaxBytes bounds an encoded entry. The pipeline makes none larger, the transport sends one in one message, and
// every log store reads one back. The `wal` store sets the limit, because its library writes a record of more
// than 64 MiB and then reads it as damage.
const MaxBytes = 48 << 20

// MaxOpHeader bounds the bytes of an entry for one op besides the op's own: its number and its length.
const MaxOpHeader = 2 * binary.MaxVarintLen32

// MaxHeader bounds the bytes of an entry besides its ops.
const MaxHeader = 96

// Number is the permanent number of an op.
type Number uint32

// Incarnation identifies one history of a store. Its text is hexadecimal.
type Incarnation [16]byte

func (i Incarnation) String() string { return hex.EncodeToString(i[:]) }

// MarshalText encodes i in hexadecimal.
func (i Incarnation) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// UnmarshalText decodes the output of MarshalText.
func (i *Incarnation) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(i)) {
		return fmt.Errorf("an incarnation takes %d hexadecimal digits, not %d", hex.EncodedLen(len(i)), len(text))
	}
	_, err := hex.Decode(i[:], text)
	return err
}

// Seed is random bytes drawn by the proposer, so that apply creates the same ids on every replica.
type Seed [16]byte

// Trace is a W3C trace context: 16 bytes trace id, 8 bytes span id, 1 byte flags. The zero Trace means no
// context and takes one byte on disk.
type Trace [25]byte

// Header holds the fields that all ops of an entry share.
type Header struct {
	Level       uint32
	Incarnation Incarnation
	ClockNs     int64
	Seed        Seed
	Trace       Trace
}

// Op is one op of an entry, still encoded.
type Op struct {
	Number Number
	Bytes  []byte
}

// Entry is one decoded log entry. Its ops alias the encoded bytes.
type Entry struct {
	Header
	Ops []Op
}

// Position identifies an entry of the log. Index counts from 1.
type Position struct {
	Index uint64
	Term  uint64
}

// Position returns the index and term of the last applied entry.
func (a Applied) Position() Position { return Position{Index: a.Index, Term: a.Term} }

// Applied says how far a state machine has applied the log: the group, its history and the last applied
// entry. The zero Applied describes an empty machine.
type Applied struct {
	Group       string
	Incarnation Incarnation
	Index       uint64
	Term        uint64
}

// ErrCorrupt is wrapped by every error of Decode.
var ErrCorrupt = errors.New("corrupt log entry")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Marshaler encodes a message backwards, from the end of a buffer that has exactly the message's size. The
// generated codecs implement it.
type Marshaler interface {
	MarshalToSizedBufferVT([]byte) (int, error)
}

// Builder encodes an entry op by op into one buffer, so that each op is marshalled once. The zero Builder is
// ready for use.
type Builder struct {
	ops   []byte
	count uint64
}

// Add appends one op whose encoding takes size bytes. If Add fails, the entry stays as it was before the
// call.
func (b *Builder) Add(number Number, size int, m Marshaler) error {
	if number == 0 {
		return errors.New("an op needs a number above 0")
	}
	before := len(b.ops)
	b.ops = binary.AppendUvarint(b.ops, uint64(number))
	b.ops = binary.AppendUvarint(b.ops, uint64(size))
	at := len(b.ops)
	b.ops = slices.Grow(b.ops, size)[:at+size]
	n, err := m.MarshalToSizedBufferVT(b.ops[at:])
	if err == nil && n != size {
		err = fmt.Errorf("it wrote %d bytes where it had announced %d", n, size)
	}
	if err != nil {
		b.ops = b.ops[:before]
		return fmt.Errorf("encode op %d: %w", number, err)
	}
	b.count++
	return nil
}

// Count returns the number of ops added since the last Finish.
func (b *Builder) Count() int { return int(b.count) }

// Finish returns the encoded entry in newly allocated memory and empties the builder.
func (b *Builder) Finish(h Header) []byte {
	out := make([]byte, 0, len(b.ops)+MaxHeader)
	out = append(out, Version)
	out = binary.AppendUvarint(out, uint64(h.Level))
	out = append(out, h.Incarnation[:]...)
	out = binary.LittleEndian.AppendUint64(out, uint64(h.ClockNs))
	out = append(out, h.Seed[:]...)
	if h.Trace == (Trace{}) {
		out = append(out, 0)
	} else {
		out = append(out, byte(len(h.Trace)))
		out = append(out, h.Trace[:]...)
	}
	out = append(out, 0) // sequences
	out = binary.AppendUvarint(out, b.count)
	out = append(out, b.ops...)
	out = binary.LittleEndian.AppendUint32(out, crc32.Checksum(out, castagnoli))
	b.ops, b.count = b.ops[:0], 0
	return out
}

// Decode decodes an entry and checks its checksum. Every malformed input gives an error that wraps
// ErrCorrupt.
func Decode(data []byte) (Entry, error) {
	if len(data) < 4 {
		return Entry{}, fmt.Errorf("%w: %d bytes", ErrCorrupt, len(data))
	}
	body, sum := data[:len(data)-4], binary.LittleEndian.Uint32(data[len(data)-4:])
	if got := crc32.Checksum(body, castagnoli); got != sum {
		return Entry{}, fmt.Errorf("%w: checksum %08x, want %08x", ErrCorrupt, got, sum)
	}
	r := reader{rest: body}
	if v := r.take(1); r.err == nil && v[0] != Version {
		return Entry{}, fmt.Errorf("%w: version %d, this binary reads %d", ErrCorrupt, v[0], Version)
	}
	var e Entry
	level := r.uvarint()
	if level > 1<<32-1 {
		r.fail("feature level %d", level)
	}
	e.Level = uint32(level)
	copy(e.Incarnation[:], r.take(len(e.Incarnation)))
	if clock := r.take(8); r.err == nil {
		e.ClockNs = int64(binary.LittleEndian.Uint64(clock))
	}
	copy(e.Seed[:], r.take(len(e.Seed)))
	r.trace(&e.Trace)
	if n := r.uvarint(); n != 0 {
		r.fail("%d bytes of sequences, none are known", n)
	}
	e.Ops = r.ops()
	if r.err == nil && len(r.rest) != 0 {
		r.fail("%d bytes after the last op", len(r.rest))
	}
	if r.err != nil {
		return Entry{}, r.err
	}
	return e, nil
}

// reader consumes an encoded entry. After the first error it returns only zero values.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
	}
}

func (r *reader) take(n int) []byte {
	if r.err != nil {
		return nil
	}
	if n > len(r.rest) {
		r.fail("%d bytes wanted, %d left", n, len(r.rest))
		return nil
	}
	out := r.rest[:n:n]
	r.rest = r.rest[n:]
	return out
}

func (r *reader) uvarint() uint64 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail("bad varint")
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) trace(t *Trace) {
	n := r.take(1)
	if r.err != nil || n[0] == 0 {
		return
	}
	if int(n[0]) != len(t) {
		r.fail("trace of %d bytes", n[0])
		return
	}
	copy(t[:], r.take(len(t)))
}

func (r *reader) ops() []Op {
	count := r.uvarint()
	// Each op takes at least two bytes, so a larger count is refused before memory is allocated for it.
	if count > uint64(len(r.rest))/2 {
		r.fail("%d ops in %d bytes", count, len(r.rest))
		return nil
	}
	ops := make([]Op, 0, count)
	for range count {
		number, size := r.uvarint(), r.uvarint()
		if number == 0 || number > 1<<32-1 {
			r.fail("op number %d", number)
		}
		if size > uint64(len(r.rest)) {
			r.fail("op of %d bytes, %d left", size, len(r.rest))
		}
		if r.err != nil {
			return nil
		}
		ops = append(ops, Op{Number: Number(number), Bytes: r.take(int(size))})
	}
	return ops
}
