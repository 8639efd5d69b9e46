package op

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/corvo/corvo/dataplane/job"
)

// The lengths of Meta's lease seed and request id in bytes.
const (
	seedSize      = 16
	requestIDSize = 16
)

// check checks the fields of an op's Meta that every op may have. A nil Meta counts as empty. The ops that
// use meta.ids and meta.lease_seed check them.
func (m *Meta) check(p *problems) {
	p.add("meta.principal", job.CheckText(m.GetPrincipal(), job.MaxPrincipal))
	if strings.IndexByte(m.GetPrincipal(), 0) >= 0 {
		// A zero byte ends the principal in the hash of an idempotency key.
		p.add("meta.principal", errors.New("has a zero byte"))
	}
	if n := len(m.GetRequestId()); n != 0 && n != requestIDSize {
		p.add("meta.request_id", fmt.Errorf("has %d bytes; a request id has %d", n, requestIDSize))
	}
	m.GetAudit().check(p, "meta.audit")
	key := m.GetIdempotency()
	if key == nil {
		return
	}
	p.add("Idempotency-Key", job.CheckText(key.Key, job.MaxIdempotencyKey))
	if key.Key == "" {
		p.add("Idempotency-Key", errors.New("is empty; leave it out or name one"))
	}
	if len(key.RequestHash) != sha256.Size {
		p.add("meta.idempotency.request_hash", fmt.Errorf("has %d bytes; a SHA-256 has %d", len(key.RequestHash), sha256.Size))
	}
}

// leaseToken returns the token of the i-th lease that an op grants. The token is a hash of i and the
// proposer's random seed, so that every replica derives the same token and nobody else can guess it.
func leaseToken(seed []byte, i int) [job.TokenSize]byte {
	var buf [seedSize + 4]byte
	copy(buf[:seedSize], seed)
	binary.BigEndian.PutUint32(buf[seedSize:], uint32(i))
	sum := sha256.Sum256(buf[:])
	return [job.TokenSize]byte(sum[:])
}
