// Package resourceid generates the ids of resources and of the stores of hosts. It knows neither their
// prefixes nor who keeps them. It imports nothing of ours.
package resourceid

import (
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// characters is the length of an id after its prefix.
const characters = 26

// crockford encodes ids in lower case, because a namespace's id is the name of a directory and some file
// systems ignore case.
var crockford = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// New returns the prefix followed by 48 bits of Unix milliseconds and 80 random bits, so that ids of one prefix
// sort by the millisecond of creation. It fails only if reading the random bits fails.
func New(random io.Reader, prefix string, nowNs int64) (string, error) {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], uint64(nowNs/1e6)<<16)
	if _, err := io.ReadFull(random, id[6:]); err != nil {
		return "", fmt.Errorf("random bits for an id: %w", err)
	}
	return prefix + crockford.EncodeToString(id[:]), nil
}

// Has reports whether id has the form that New gives it: the prefix and 26 characters.
func Has(id, prefix string) bool {
	text, ok := strings.CutPrefix(id, prefix)
	bits, err := crockford.DecodeString(text)
	// The last character has two bits more than the id, and a decoder ignores them.
	return ok && len(text) == characters && err == nil && crockford.EncodeToString(bits) == text
}
