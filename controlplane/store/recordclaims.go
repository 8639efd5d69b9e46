package store

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"

	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/tenancy/keyring"
)

// RecordClaims records until when sources of usage are complete. It leaves no audit row, because no person decided it.

// MaxClaims is the largest number of claims in one op.
const MaxClaims = 1000

// Validate refuses an op that no state could accept.
func (o *RecordClaims) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	if n := len(o.Claims); n == 0 || n > MaxClaims {
		p.add("claims", fmt.Errorf("has %d entries: it takes 1 to %d", n, MaxClaims))
		return p.err()
	}
	for i, c := range o.Claims {
		field := func(name string) string { return fmt.Sprintf("claims[%d].%s", i, name) }
		p.add(field("host"), checkID(c.GetHost()))
		p.add(field("stream"), checkWord(c.GetStream(), MaxStream))
		if c.GetNamespace() != "" {
			p.add(field("namespace"), checkID(c.GetNamespace()))
			p.add(field("incarnation"), checkWord(c.GetIncarnation(), MaxStream))
		} else if c.GetIncarnation() != "" {
			p.add(field("incarnation"), errors.New("is set: a gateway's claim has none"))
		}
		if c.GetLast() > math.MaxInt64 {
			p.add(field("last"), fmt.Errorf("is %d: it is at most %d", c.GetLast(), int64(math.MaxInt64)))
		}
		p.add(field("until_ns"), checkPositive(c.GetUntilNs()))
	}
	return p.err()
}

// Apply records the claims that are later than the recorded ones. A claim ahead of the clock of the entry counts until that
// clock, because the clock of its source is wrong.
func (o *RecordClaims) Apply(tx *Tx) (*RecordClaimsResult, error) {
	result := &RecordClaimsResult{}
	for _, c := range o.Claims {
		expected, err := tx.expects(c)
		if err != nil {
			return nil, err
		}
		was, err := number(tx, "SELECT until_ns FROM usage_claims WHERE namespace = ? AND stream = ?", c.GetNamespace(), c.GetStream())
		if err != nil {
			return nil, err
		}
		until := min(c.GetUntilNs(), tx.clockNs())
		if !expected || until <= was {
			continue
		}
		err = tx.put("INSERT OR REPLACE INTO usage_claims (namespace, stream, incarnation, until_ns, at_ns) VALUES (?, ?, ?, ?, ?)",
			c.GetNamespace(), c.GetStream(), c.GetIncarnation(), until, tx.clockNs())
		if err != nil {
			return nil, err
		}
		result.Recorded++
	}
	return result, nil
}

// expects reports whether a claim comes from a source whose usage may still come, and whether all rows that the claim is
// about were applied. It expects nothing of deleted namespaces, and of the earlier incarnations of a refounded group.
func (tx *Tx) expects(c *UsageClaim) (bool, error) {
	if c.GetNamespace() == "" {
		known, err := number(tx, "SELECT COUNT(*) FROM hosts WHERE id = ? AND kind = ?", c.GetHost(), string(keyring.Gateway))
		return known == 1 && c.GetStream() == gatewayStream(c.GetHost()), err
	}
	n, found, err := first(tx, scanNamespace, selectNamespace+" WHERE id = ?", c.GetNamespace())
	if err != nil || !found || n.Phase == fleet.Deleted || !n.On(c.GetHost()) {
		return false, err
	}
	for shard, incarnation := range n.Incarnations {
		of := billing.Source{Namespace: c.GetNamespace(), Stream: shardStream(shard), Incarnation: hex.EncodeToString(incarnation[:])}
		if of.Stream != c.GetStream() || of.Incarnation != c.GetIncarnation() {
			continue
		}
		last, err := lastUsage(tx, of)
		return last >= c.GetLast(), err
	}
	return false, nil
}

// shardStream returns the stream of a shard's usage.
func shardStream(shard int) string { return fmt.Sprintf("shard/%d", shard) }

// gatewayStream returns the stream of a gateway's usage.
func gatewayStream(id string) string { return "gateway/" + id }
