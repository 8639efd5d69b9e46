package store

import (
	"context"
	"database/sql"
	"fmt"

	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/tenancy/keyring"
)

// A document is built from the present state; only its number is stored: that of a placement in its namespace, those of the
// other kinds in the table documents. Every op that changes something that a document shows gives it a new number in the same
// entry, by touch, touchAll or touchOwner. An expiry is no op and gives no new number: hosts and gateways compare the time
// themselves. A document without keys and roles needs no number, because it is the same as none.

// touch gives a namespace's placement a new number. The caller writes the namespace.
func (tx *Tx) touch(n *fleet.Namespace) {
	n.DocNumber = tx.nextDocument()
}

// nextDocument returns the number of a new document.
func (tx *Tx) nextDocument() int64 {
	tx.head.docNumber++
	tx.wake = true
	return tx.head.docNumber
}

// touchAll gives new numbers to the placements of the namespaces that a query returns.
func (tx *Tx) touchAll(query string, args ...any) error {
	ids, err := list(tx, scalar[string], query, args...)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := tx.put("UPDATE namespaces SET doc_number = ? WHERE id = ?", tx.nextDocument(), id); err != nil {
			return err
		}
	}
	return nil
}

// touchDocument gives a document of another kind than a placement a new number.
func (tx *Tx) touchDocument(kind, id string) error {
	return tx.put("INSERT OR REPLACE INTO documents (kind, id, number) VALUES (?, ?, ?)", kind, id, tx.nextDocument())
}

// touchOwner renews the document that shows the credentials and roles of an owner of this kind. A namespace that is
// being deleted or was deleted has none, and no document shows credentials of operators, hosts and gateways.
func (tx *Tx) touchOwner(kind keyring.Kind, owner string) error {
	switch kind {
	case keyring.Namespace:
		living, err := number(tx, "SELECT COUNT(*) FROM namespaces WHERE id = ? AND "+isLiving, owner)
		if err != nil || living == 0 {
			return err
		}
		return tx.touchDocument(wire.KindKeys, owner)
	case keyring.Org:
		return tx.touchDocument(wire.KindTokens, owner)
	}
	return nil
}

// isLiving is the condition of namespaces that are neither being deleted nor deleted.
const isLiving = "phase IN ('provisioning', 'active')"

// dropKeys removes the keys document of a namespace that is being deleted. Its placement tells followers so.
func (tx *Tx) dropKeys(namespace string) error {
	_, err := tx.exec("DELETE FROM documents WHERE kind = ? AND id = ?", wire.KindKeys, namespace)
	return err
}

// documentRow is the kind, subject and number of a document.
type documentRow struct {
	kind, id string
	number   int64
}

func scanDocument(rows *sql.Rows) (d documentRow, err error) {
	return d, rows.Scan(&d.kind, &d.id, &d.number)
}

// unnumbered selects the documents that show something and have no number.
const unnumbered = `SELECT '` + wire.KindTokens + `', owner, 0 FROM credentials WHERE kind = '` + string(keyring.Org) + `'
		AND owner NOT IN (SELECT id FROM documents WHERE kind = '` + wire.KindTokens + `') UNION
	SELECT '` + wire.KindKeys + `', id, 0 FROM namespaces WHERE ` + isLiving + ` AND id NOT IN (SELECT id FROM documents WHERE kind = '` + wire.KindKeys + `')
		AND (id IN (SELECT owner FROM credentials) OR id IN (SELECT namespace FROM roles)) ORDER BY 1, 2`

// numberDocuments gives numbers to the documents of keys and tokens in a state of an earlier build, which sent them with the
// placements. The numbers are above all earlier ones, so that the documents replace what followers have.
func (tx *Tx) numberDocuments() error {
	missing, err := list(tx, scanDocument, unnumbered)
	if err != nil {
		return err
	}
	for _, d := range missing {
		if err := tx.touchDocument(d.kind, d.id); err != nil {
			return err
		}
	}
	return nil
}

// Docs returns the documents of all kinds with numbers greater than after, ordered by number: at most limit and at most
// MaxPage. Each is built from the present state. Deleted namespaces have a placement too, so that a follower that was away
// learns of the deletion.
func (s *Store) Docs(ctx context.Context, after int64, limit int) ([]wire.Doc, error) {
	clockNs := s.machine.LastClock()
	return read(ctx, s, func(r reader) ([]wire.Doc, error) {
		rows, err := list(r, scanDocument, `SELECT '`+wire.KindPlacement+`', id, doc_number FROM namespaces WHERE doc_number > ?1
			UNION ALL SELECT kind, id, number FROM documents WHERE number > ?1 ORDER BY 3 LIMIT ?2`, after, page(limit))
		if err != nil {
			return nil, err
		}
		all := make([]wire.Doc, len(rows))
		for i, row := range rows {
			if all[i], err = document(r, row, clockNs); err != nil {
				return nil, err
			}
		}
		return all, nil
	})
}

// KeyDocs returns the documents with the keys of a namespace and the tokens of its organisation, as far as there are any,
// without those whose number had returns.
func (s *Store) KeyDocs(ctx context.Context, namespace, org string, had func(kind, id string) int64) ([]wire.Doc, error) {
	clockNs := s.machine.LastClock()
	return read(ctx, s, func(r reader) (all []wire.Doc, err error) {
		rows, err := list(r, scanDocument, `SELECT kind, id, number FROM documents WHERE kind = ?1 AND id = ?2 OR kind = ?3 AND id = ?4
			ORDER BY number`, wire.KindKeys, namespace, wire.KindTokens, org)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			if had(row.kind, row.id) == row.number {
				continue
			}
			d, err := document(r, row, clockNs)
			if err != nil {
				return nil, err
			}
			all = append(all, d)
		}
		return all, nil
	})
}

// HostNeeds reports whether a host has a member of the namespace that a document of keys is about, or of a namespace of the
// organisation that a document of tokens is about.
func (s *Store) HostNeeds(ctx context.Context, host string, d wire.Doc) (bool, error) {
	return read(ctx, s, func(r reader) (bool, error) {
		const members = `SELECT COUNT(*) FROM (SELECT 1 FROM namespaces n JOIN members m ON m.namespace = n.id JOIN stores s ON s.id = m.store
			WHERE s.host = ? AND n.` + isLiving
		if d.Kind == wire.KindTokens {
			n, err := number(r, members+" AND n.org = ? LIMIT 1)", host, d.Org)
			return n > 0, err
		}
		n, err := number(r, members+" AND n.id = ? LIMIT 1)", host, d.Namespace)
		return n > 0, err
	})
}

// epoch is the epoch of all documents. It is a constant, because no op restores the control plane's state from a backup
// yet; only then may generations repeat.
const epoch = 1

// document builds a document.
func document(q querier, row documentRow, clockNs int64) (d wire.Doc, err error) {
	switch row.kind {
	case wire.KindPlacement:
		d, err = placement(q, row.id)
	case wire.KindKeys:
		d, err = namespaceKeys(q, row.id, clockNs)
	case wire.KindTokens:
		d = wire.Doc{Org: row.id}
		d.Keys, err = keys(q, keyring.Org, row.id, clockNs)
	default:
		err = fmt.Errorf("document %d is of the unknown kind %q", row.number, row.kind)
	}
	d.Number, d.Format, d.Kind, d.Epoch = row.number, wire.DocFormat, row.kind, epoch
	return d, err
}

// placement builds the placement of a namespace, without the fields of all documents.
func placement(q querier, id string) (wire.Doc, error) {
	n, _, err := first(q, scanNamespace, selectNamespace+" WHERE id = ?", id)
	if err != nil {
		return wire.Doc{}, err
	}
	d := wire.Doc{
		Namespace: string(n.ID), Name: n.Name, Org: string(n.Org), Generation: n.Generation, Desired: wire.Absent,
		Incarnations: n.Incarnations, Earlier: n.Earlier, Members: wireMembers(n), Configurations: n.Configurations, Ready: n.Phase == fleet.Active, Trace: n.Trace,
	}
	if n.Phase != fleet.Provisioning && n.Phase != fleet.Active {
		return d, nil
	}
	d.Desired = wire.Open
	held, err := isHeld(q, n.Org)
	if held {
		d.Hold = wire.HoldSpendLimit
	}
	return d, err
}

// namespaceKeys builds the keys document of a namespace, without the fields of all documents.
func namespaceKeys(q querier, id string, clockNs int64) (wire.Doc, error) {
	n, _, err := first(q, scanNamespace, selectNamespace+" WHERE id = ?", id)
	if err != nil {
		return wire.Doc{}, err
	}
	d := wire.Doc{Namespace: id, Org: string(n.Org), Generation: n.Generation}
	if d.Keys, err = keys(q, keyring.Namespace, id, clockNs); err != nil {
		return d, err
	}
	d.Roles, err = wireRoles(q, id)
	return d, err
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
