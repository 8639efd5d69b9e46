package store

import (
	"fmt"
	"io"

	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/engine/entry"
)

// foundingColumns select the incarnations of a namespace, whether its founding is recorded, and the earlier incarnations
// and the store of a recovery.
const foundingColumns = `, (SELECT f.incarnations FROM foundings f WHERE f.namespace = namespaces.id),
	EXISTS (SELECT 1 FROM foundings f WHERE f.namespace = namespaces.id AND f.founded_ns > 0),
	(SELECT r.earlier FROM recoveries r WHERE r.namespace = namespaces.id),
	COALESCE((SELECT r.store FROM recoveries r WHERE r.namespace = namespaces.id), '')`

// incarnationsColumn scans the column foundings.incarnations. It is nil for a namespace without a row.
type incarnationsColumn []entry.Incarnation

func (c *incarnationsColumn) Scan(value any) error {
	*c = nil
	if value == nil {
		return nil
	}
	stored, ok := value.([]byte)
	if !ok || len(stored)%len(entry.Incarnation{}) != 0 {
		return fmt.Errorf("the incarnations of a namespace are %T of %d bytes", value, len(stored))
	}
	for len(stored) > 0 {
		var i entry.Incarnation
		stored = stored[copy(i[:], stored):]
		*c = append(*c, i)
	}
	return nil
}

// checkIncarnations adds the faults of the incarnations of an op for a number of shards.
func checkIncarnations(p *problems, all [][]byte, shards int) {
	if len(all) != shards {
		p.add("incarnations", fmt.Errorf("has %d entries for %d shards", len(all), shards))
	}
	for i, one := range all {
		p.add(fmt.Sprintf("incarnations[%d]", i), checkSize(one, len(entry.Incarnation{})))
	}
}

// NewIncarnations returns random incarnations for the shards of a namespace, in the form of an op.
func NewIncarnations(random io.Reader, shards int) ([][]byte, error) {
	all := make([][]byte, shards)
	for i := range all {
		all[i] = make([]byte, len(entry.Incarnation{}))
		if _, err := io.ReadFull(random, all[i]); err != nil {
			return nil, fmt.Errorf("mint an incarnation: %w", err)
		}
	}
	return all, nil
}

// putFounding writes the incarnations of a namespace. foundedNs is 0 while the groups may still be founded.
func (tx *Tx) putFounding(namespace string, incarnations [][]byte, foundedNs int64) error {
	return tx.put("INSERT OR REPLACE INTO foundings (namespace, incarnations, founded_ns) VALUES (?, ?, ?)",
		namespace, joined(incarnations), foundedNs)
}

func joined(parts [][]byte) (all []byte) {
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}

// storeRole returns the role of the namespace's first store in its document.
func storeRole(n fleet.Namespace) string {
	if n.Phase == fleet.Provisioning && !n.Founded {
		return wire.Found
	}
	return wire.Join
}
