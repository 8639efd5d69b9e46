package store

import (
	"context"
	"slices"

	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/tenancy/keyring"
)

// A namespace's document is built from its present state; only its number is stored. Every op that changes
// something a document shows calls touch, touchAll or touchOwner for its namespace, in the same entry. An
// expiry is no op and gives no new number: hosts and gateways compare the time themselves.

// touch gives a namespace's document a new number. The caller writes the namespace.
func (tx *Tx) touch(n *fleet.Namespace) {
	tx.head.docNumber++
	tx.wake = true
	n.DocNumber = tx.head.docNumber
}

// touchAll gives new numbers to the documents of the namespaces that a query returns.
func (tx *Tx) touchAll(query string, args ...any) error {
	ids, err := list(tx, scalar[string], query, args...)
	if err != nil {
		return err
	}
	for _, id := range ids {
		var n fleet.Namespace
		tx.touch(&n)
		if err := tx.put("UPDATE namespaces SET doc_number = ? WHERE id = ?", n.DocNumber, id); err != nil {
			return err
		}
	}
	return nil
}

// touchOwner renews the documents that show the credentials or roles of an owner of this kind: those of its
// namespaces that are neither being deleted nor deleted. No document shows credentials of operators, hosts
// and gateways.
func (tx *Tx) touchOwner(kind keyring.Kind, owner string) error {
	const living = " AND phase IN ('provisioning', 'active') ORDER BY id"
	switch kind {
	case keyring.Namespace:
		return tx.touchAll("SELECT id FROM namespaces WHERE id = ?"+living, owner)
	case keyring.Org:
		return tx.touchAll("SELECT id FROM namespaces WHERE org = ?"+living, owner)
	}
	return nil
}

// Docs returns the documents with numbers greater than after, ordered by number: at most limit and at most
// MaxPage. Each namespace has one document, built from its present state. Deleted namespaces have one too, so
// that a follower that was away learns of the deletion.
func (s *Store) Docs(ctx context.Context, after int64, limit int) ([]wire.Doc, error) {
	clockNs := s.machine.LastClock()
	return read(ctx, s, func(r reader) ([]wire.Doc, error) { return docs(r, after, limit, clockNs) })
}

// epoch is the epoch of all documents. It is a constant, because no op restores the control plane's state from a backup
// yet; only then may generations repeat.
const epoch = 1

func docs(q querier, after int64, limit int, clockNs int64) ([]wire.Doc, error) {
	namespaces, err := list(q, scanNamespace, selectNamespace+" WHERE doc_number > ? ORDER BY doc_number LIMIT ?", after, page(limit))
	if err != nil {
		return nil, err
	}
	all := make([]wire.Doc, 0, len(namespaces))
	tokens := map[string][]wire.Key{} // by organisation, read once each
	for _, n := range namespaces {
		d := wire.Doc{
			Number: n.DocNumber, Namespace: string(n.ID), Name: n.Name, Org: string(n.Org),
			Generation: n.Generation, Desired: wire.Absent, Incarnations: n.Incarnations,
			Earlier: n.Earlier, Epoch: epoch, Members: wireMembers(n), Configurations: n.Configurations,
			Ready: n.Phase == fleet.Active, Keys: []wire.Key{}, Trace: n.Trace,
		}
		if n.Phase == fleet.Provisioning || n.Phase == fleet.Active {
			d.Desired = wire.Open
			if _, met := tokens[d.Org]; !met {
				if tokens[d.Org], err = keys(q, keyring.Org, d.Org, clockNs); err != nil {
					return nil, err
				}
			}
			own, err := keys(q, keyring.Namespace, d.Namespace, clockNs)
			if err != nil {
				return nil, err
			}
			d.Keys = slices.Concat(d.Keys, own, tokens[d.Org])
			if d.Roles, err = wireRoles(q, d.Namespace); err != nil {
				return nil, err
			}
		}
		all = append(all, d)
	}
	return all, nil
}

// keys lists an owner's enabled credentials of a kind that have not expired, in the order of creation.
func keys(q querier, kind keyring.Kind, owner string, clockNs int64) ([]wire.Key, error) {
	credentials, err := list(q, scanCredential, selectCredential+
		" WHERE owner = ? AND kind = ? AND (expires_ns = 0 OR expires_ns > ?) ORDER BY created_ns, id", owner, string(kind), clockNs)
	if err != nil {
		return nil, err
	}
	all := make([]wire.Key, 0, len(credentials))
	for _, c := range credentials {
		if !c.Enabled {
			continue // a disabled key is not shown to hosts or gateways
		}
		k := wire.Key{ID: c.ID, Name: c.Name, Roles: []string{}, Hash: c.Hash[:], ExpiresNs: endNs(c.ExpiresAt), CreatedNs: endNs(c.CreatedAt)}
		for _, role := range c.Roles {
			k.Roles = append(k.Roles, string(role))
		}
		for _, glob := range c.QueueScope {
			k.QueueScope = append(k.QueueScope, string(glob))
		}
		all = append(all, k)
	}
	return all, nil
}

// wireRoles returns the custom roles of a namespace in the form of documents.
func wireRoles(q querier, namespace string) (all []wire.Role, err error) {
	found, err := roles(q, namespace)
	for _, r := range found {
		shown := wire.Role{Name: r.Name}
		for _, p := range r.Permissions {
			shown.Permissions = append(shown.Permissions, string(p))
		}
		all = append(all, shown)
	}
	return all, err
}
