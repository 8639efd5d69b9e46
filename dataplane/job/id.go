package job

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Slots is the number of hash slots. A queue's name hashes to one slot, and a slot belongs to one shard at a
// time.
const Slots = 4096

// IDPrefix starts the API form of every job id.
const IDPrefix = "job_"

// ID identifies a job: 48 bits of Unix milliseconds, 12 bits of slot, 68 random bits. Ids sort by creation
// time.
type ID [16]byte

// Entropy is the randomness of an ID. The first four bits are not used.
type Entropy [9]byte

const (
	alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ" // Crockford's
	idChars  = 26                                 // of an ID in that alphabet

	// IDTextSize is the length of an id as clients see it.
	IDTextSize = len(IDPrefix) + idChars
)

// digits maps the characters of the alphabet, also in lower case, to their values, and all others to a
// negative number.
var digits = func() (values [256]int8) {
	for c := range values {
		values[c] = int8(strings.IndexByte(alphabet, byte(c)))
		if 'a' <= c && c <= 'z' {
			values[c] = int8(strings.IndexByte(alphabet, byte(c-'a'+'A')))
		}
	}
	return values
}()

// SlotOf returns the slot of a queue: xxhash64 of its name modulo Slots.
func SlotOf(queue string) uint16 { return uint16(xxhash.Sum64String(queue) % Slots) }

// NewID makes the id of a job created in queue at unixMs.
func NewID(unixMs int64, queue string, entropy Entropy) ID {
	var id ID
	binary.BigEndian.PutUint64(id[:8], uint64(unixMs)<<16|uint64(SlotOf(queue))<<4|uint64(entropy[0]&0x0f))
	copy(id[8:], entropy[1:])
	return id
}

// Slot returns the slot of the queue in which the job was created.
func (id ID) Slot() uint16 { return binary.BigEndian.Uint16(id[6:8]) >> 4 }

// UnixMs returns the job's creation time in Unix milliseconds.
func (id ID) UnixMs() int64 { return int64(binary.BigEndian.Uint64(id[:8]) >> 16) }

// String returns the API form of the id: "job_" and 26 Crockford characters.
func (id ID) String() string {
	var buf [IDTextSize]byte
	return string(id.Append(buf[:0]))
}

// Append appends the result of String.
func (id ID) Append(b []byte) []byte {
	b = append(b, IDPrefix...)
	high, low := binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:])
	for range idChars { // the last has two bits more than the id
		b = append(b, alphabet[high>>59])
		high, low = high<<5|low>>59, low<<5
	}
	return b
}

// ParseID converts the text of String back. It accepts lower case.
func ParseID(s string) (ID, error) {
	text, ok := strings.CutPrefix(s, IDPrefix)
	if !ok || len(text) != idChars {
		return ID{}, fmt.Errorf("%q is not a job id: it starts with %q and %d characters follow", s, IDPrefix, idChars)
	}
	var high, low uint64
	for i := range idChars {
		v := digits[text[i]]
		if v < 0 {
			return ID{}, fmt.Errorf("%q is not a job id: %q is not one of %s", s, text[i], alphabet)
		}
		if i == idChars-1 && v&3 != 0 {
			return ID{}, fmt.Errorf("%q is not a job id: its last character has bits beyond the id", s)
		}
		if i < idChars-1 {
			high, low = high<<5|low>>59, low<<5|uint64(v)
		} else {
			high, low = high<<3|low>>61, low<<3|uint64(v)>>2
		}
	}
	var id ID
	binary.BigEndian.PutUint64(id[:8], high)
	binary.BigEndian.PutUint64(id[8:], low)
	return id, nil
}

// IDFromBytes decodes a stored id.
func IDFromBytes(b []byte) (ID, error) {
	if len(b) != len(ID{}) {
		return ID{}, fmt.Errorf("a job id has %d bytes, not %d", len(ID{}), len(b))
	}
	return ID(b), nil
}
