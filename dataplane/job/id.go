package job

import (
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Slots is the number of slots a queue name hashes to; a slot lives on one
// shard at a time.
const Slots = 4096

// IDPrefix starts every job id as clients see it.
const IDPrefix = "job_"

// ID is a job's identity: 48 bits of Unix milliseconds, 12 bits of slot, 68
// random bits. Ids sort by creation time.
type ID [16]byte

// Entropy is the randomness an ID needs; the first four bits are not used.
type Entropy [9]byte

const (
	alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ" // Crockford's
	idChars  = 26                                 // of an ID in that alphabet
)

var crockford = base32.NewEncoding(alphabet).WithPadding(base32.NoPadding)

// SlotOf is the slot of a queue: xxhash64 of its name modulo Slots.
func SlotOf(queue string) uint16 { return uint16(xxhash.Sum64String(queue) % Slots) }

// NewID makes an id for a job born in queue at unixMs.
func NewID(unixMs int64, queue string, entropy Entropy) ID {
	var id ID
	binary.BigEndian.PutUint64(id[:8], uint64(unixMs)<<16|uint64(SlotOf(queue))<<4|uint64(entropy[0]&0x0f))
	copy(id[8:], entropy[1:])
	return id
}

// Slot is the slot the job was born in.
func (id ID) Slot() uint16 { return binary.BigEndian.Uint16(id[6:8]) >> 4 }

// UnixMs is the job's birth time in Unix milliseconds.
func (id ID) UnixMs() int64 { return int64(binary.BigEndian.Uint64(id[:8]) >> 16) }

// String is the id as clients see it: "job_" and 26 Crockford characters.
func (id ID) String() string {
	buf := make([]byte, len(IDPrefix)+idChars)
	copy(buf, IDPrefix)
	crockford.Encode(buf[len(IDPrefix):], id[:])
	return string(buf)
}

// ParseID reads what String printed; lower case is accepted.
func ParseID(s string) (ID, error) {
	text, ok := strings.CutPrefix(s, IDPrefix)
	if !ok || len(text) != idChars {
		return ID{}, fmt.Errorf("%q is not a job id: it starts with %q and %d characters follow", s, IDPrefix, idChars)
	}
	// By hand: strings.ToUpper turns some letters beyond ASCII into these, and the
	// decoder skips line breaks.
	var upper [idChars]byte
	for i := range upper {
		c := text[i]
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		if strings.IndexByte(alphabet, c) < 0 {
			return ID{}, fmt.Errorf("%q is not a job id: %q is not one of %s", s, c, alphabet)
		}
		upper[i] = c
	}
	var id ID
	if _, err := crockford.Decode(id[:], upper[:]); err != nil {
		return ID{}, fmt.Errorf("%q is not a job id: %w", s, err)
	}
	if id.String()[len(IDPrefix):] != string(upper[:]) {
		return ID{}, fmt.Errorf("%q is not a job id: its last character has bits beyond the id", s)
	}
	return id, nil
}

// IDFromBytes reads a stored id.
func IDFromBytes(b []byte) (ID, error) {
	if len(b) != len(ID{}) {
		return ID{}, fmt.Errorf("a job id has %d bytes, not %d", len(ID{}), len(b))
	}
	return ID(b), nil
}
