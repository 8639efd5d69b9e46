package server

import (
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"io"
)

// The prefixes of ids. The underscore keeps an id from being a name.
const (
	orgPrefix       = "org_"
	namespacePrefix = "ns_"
	operationPrefix = "op_"
	hostPrefix      = "host_"
	gatewayPrefix   = "gw_"
)

// crockford encodes ids in lower case, because a namespace's id is the name of a directory and some file
// systems ignore case.
var crockford = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// newID returns the prefix followed by 48 bits of Unix milliseconds and 80 random bits, so that ids of one
// prefix sort by the millisecond of creation. It fails only if reading the random bits fails.
func newID(random io.Reader, prefix string, nowNs int64) (string, error) {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], uint64(nowNs/1e6)<<16)
	if _, err := io.ReadFull(random, id[6:]); err != nil {
		return "", fmt.Errorf("random bits for an id: %w", err)
	}
	return prefix + crockford.EncodeToString(id[:]), nil
}

func (s *Server) newID(prefix string) (string, error) {
	return newID(s.cfg.Rand, prefix, s.store.ClockNs())
}
