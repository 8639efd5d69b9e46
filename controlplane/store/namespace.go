package store

import (
	"context"
	"database/sql"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/tenancy"
)

const namespaceColumns = `id, org, name, version, generation, observed, region, tier, replicas, shards,
	deletion_protection, phase, operation, trace, doc_number, created_ns, listed`

// joinedColumns follow namespaceColumns in every read. They come from other tables.
const joinedColumns = `, COALESCE((SELECT p.principal FROM pauses p WHERE p.namespace = namespaces.id), ''),
	COALESCE((SELECT p.at_ns FROM pauses p WHERE p.namespace = namespaces.id), 0)` + foundingColumns + memberColumns

const selectNamespace = "SELECT " + namespaceColumns + joinedColumns + " FROM namespaces"

func scanNamespace(rows *sql.Rows) (n fleet.Namespace, err error) {
	var listed int // len(n.Listed())
	s := &n.Spec
	err = rows.Scan(&n.ID, &n.Org, &n.Name, &n.Version, &n.Generation, &n.Observed, &s.Region, &s.Tier, &s.Replicas, &s.Shards,
		&s.DeletionProtection, &n.Phase, &n.Operation, &n.Trace, &n.DocNumber, &n.CreatedNs, &listed, &n.PausedBy, &n.PausedNs,
		(*incarnationsColumn)(&n.Incarnations), &n.Founded,
		(*incarnationsColumn)(&n.Earlier), &n.RecoveredFrom, (*membersColumn)(&n.Members), (*indexesColumn)(&n.Configurations))
	return n, err
}

func noNamespace(idOrName string) error {
	return api.Errorf(api.NotFound, "there is no namespace %q", idOrName)
}

// namespace finds a namespace by id, even if it is deleted.
func (tx *Tx) namespace(id string) (fleet.Namespace, error) {
	n, found, err := first(tx, scanNamespace, selectNamespace+" WHERE id = ?", id)
	if err == nil && !found {
		err = noNamespace(id)
	}
	return n, err
}

// living finds a namespace by id unless it is deleted.
func (tx *Tx) living(id string) (fleet.Namespace, error) {
	n, err := tx.namespace(id)
	if err == nil && n.Phase == fleet.Deleted {
		err = noNamespace(id)
	}
	return n, err
}

func (tx *Tx) insertNamespace(n fleet.Namespace) error {
	s := n.Spec
	return tx.put("INSERT INTO namespaces ("+namespaceColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		string(n.ID), string(n.Org), n.Name, n.Version, n.Generation, n.Observed, s.Region, s.Tier, s.Replicas, s.Shards,
		s.DeletionProtection, string(n.Phase), n.Operation, n.Trace, n.DocNumber, n.CreatedNs, len(n.Listed()))
}

// updateNamespace writes the variable columns of a namespace, as a new version.
func (tx *Tx) updateNamespace(n fleet.Namespace) error {
	return tx.put(`UPDATE namespaces SET version = ?, generation = ?, observed = ?, replicas = ?, deletion_protection = ?, phase = ?,
		operation = ?, trace = ?, doc_number = ?, listed = ? WHERE id = ?`,
		n.Version+1, n.Generation, n.Observed, n.Spec.Replicas, n.Spec.DeletionProtection, string(n.Phase),
		n.Operation, n.Trace, n.DocNumber, len(n.Listed()), string(n.ID))
}

// checkVersion refuses a write that expects another version; 0 = any.
func checkVersion(n fleet.Namespace, expect int64) error {
	if expect == 0 || expect == n.Version {
		return nil
	}
	refusal := api.Errorf(api.PreconditionFailed, "namespace %q is at version %d, the request was made for %d: read it again", n.Name, n.Version, expect)
	refusal.Details = map[string]any{"resource_version": n.Version}
	return refusal
}

// checkStep refuses a step of the reconciler that was planned for another generation, or before an operator paused
// the namespace's reconciliation.
func checkStep(n fleet.Namespace, generation int64) error {
	switch {
	case n.PausedNs != 0:
		return api.Errorf(api.StateConflict, "the reconciliation of namespace %s is paused: the step is not made", n.ID)
	case generation == n.Generation:
		return nil
	}
	return api.Errorf(api.StateConflict, "namespace %s is at generation %d, the step was planned for %d: plan again", n.ID, n.Generation, generation)
}

// misplaced returns the refusal of a step that does not fit the phase and the members of a namespace.
func misplaced(n fleet.Namespace, step string) error {
	return api.Errorf(api.StateConflict, "namespace %s cannot be %s: it is %s on %s: plan again", n.ID, step, n.Phase, storesOf(n.Members))
}

// Namespace finds a namespace by id, or by name within an organisation, unless it is deleted; else NOT_FOUND.
// If org is "", it accepts only an id, of any organisation. If org is set, it finds no namespace of another
// organisation.
func (s *Store) Namespace(ctx context.Context, org tenancy.OrgID, idOrName string) (fleet.Namespace, error) {
	return read(ctx, s, func(r reader) (n fleet.Namespace, err error) {
		var found bool
		if org == "" {
			n, found, err = first(r, scanNamespace, selectNamespace+" WHERE id = ? AND phase <> 'deleted'", idOrName)
		} else {
			n, found, err = first(r, scanNamespace, selectNamespace+` WHERE org = ?1 AND (id = ?2 OR name = ?2) AND phase <> 'deleted'
				ORDER BY id = ?2 DESC LIMIT 1`, string(org), idOrName)
		}
		if err == nil && !found {
			err = noNamespace(idOrName)
		}
		return n, err
	})
}

// Namespaces lists, by id, the namespaces of an organisation, or of all for tenancy.EveryOrg, that are not
// deleted and have an id above after: at most limit, and at most MaxPage.
func (s *Store) Namespaces(ctx context.Context, org tenancy.OrgID, after tenancy.NamespaceID, limit int) ([]fleet.Namespace, error) {
	return read(ctx, s, func(r reader) ([]fleet.Namespace, error) {
		if org == tenancy.EveryOrg {
			return list(r, scanNamespace, selectNamespace+" WHERE id > ? AND phase <> 'deleted' ORDER BY id LIMIT ?", string(after), page(limit))
		}
		return list(r, scanNamespace, selectNamespace+" WHERE org = ? AND id > ? AND phase <> 'deleted' ORDER BY id LIMIT ?",
			string(org), string(after), page(limit))
	})
}
