package store

import (
	"context"
	"database/sql"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/tenancy"
)

const selectOrg = `SELECT id, name, version, created_ns,
	(SELECT COUNT(*) FROM namespaces n WHERE n.org = orgs.id AND n.phase <> 'deleted') FROM orgs`

func scanOrg(rows *sql.Rows) (o fleet.Org, err error) {
	err = rows.Scan(&o.ID, &o.Name, &o.Version, &o.CreatedNs, &o.Namespaces)
	return o, err
}

// org finds an organisation by id, else NOT_FOUND.
func (tx *Tx) org(id tenancy.OrgID) (fleet.Org, error) {
	o, found, err := first(tx, scanOrg, selectOrg+" WHERE id = ?", string(id))
	if err == nil && !found {
		err = noOrg(string(id))
	}
	return o, err
}

func noOrg(idOrName string) error {
	return api.Errorf(api.NotFound, "there is no organisation %q", idOrName)
}

// touchOrg raises an organisation's version, because its status has changed.
func (tx *Tx) touchOrg(id tenancy.OrgID) error {
	return tx.put("UPDATE orgs SET version = version + 1 WHERE id = ?", string(id))
}

// Org finds an organisation by id or name, else NOT_FOUND.
func (s *Store) Org(ctx context.Context, idOrName string) (fleet.Org, error) {
	return read(ctx, s, func(r reader) (fleet.Org, error) {
		// If one organisation's id is another's name, the id wins.
		o, found, err := first(r, scanOrg, selectOrg+" WHERE id = ?1 OR name = ?1 ORDER BY id = ?1 DESC LIMIT 1", idOrName)
		if err == nil && !found {
			err = noOrg(idOrName)
		}
		return o, err
	})
}

// Orgs lists, by id, the organisations with an id above after: at most limit, and at most MaxPage.
func (s *Store) Orgs(ctx context.Context, after tenancy.OrgID, limit int) ([]fleet.Org, error) {
	return read(ctx, s, func(r reader) ([]fleet.Org, error) {
		return list(r, scanOrg, selectOrg+" WHERE id > ? ORDER BY id LIMIT ?", string(after), page(limit))
	})
}
