package store

import (
	"context"
	"database/sql"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/tenancy/keyring"
)

const selectHost = `SELECT id, name, kind, region, address, binary, version, created_ns,
	(SELECT COUNT(*) FROM stores s JOIN members m ON m.store = s.id AND m.deleted = 0 WHERE s.host = hosts.id),
	(SELECT COALESCE(SUM(n.shards), 0) FROM stores s JOIN members m ON m.store = s.id AND m.deleted = 0
		JOIN namespaces n ON n.id = m.namespace WHERE s.host = hosts.id),
	COALESCE((SELECT s.id FROM stores s WHERE s.host = hosts.id AND s.lost_ns = 0), ''),
	COALESCE((SELECT MAX(s.run) FROM stores s WHERE s.host = hosts.id), 0),
	(SELECT COUNT(*) FROM stores s JOIN members m ON m.store = s.id AND m.deleted = 0 WHERE s.host = hosts.id AND s.lost_ns > 0),
	raft, COALESCE((SELECT d.principal FROM drains d WHERE d.host = hosts.id), ''),
	COALESCE((SELECT d.at_ns FROM drains d WHERE d.host = hosts.id), 0),
	COALESCE((SELECT z.zone FROM zones z WHERE z.host = hosts.id), '') FROM hosts`

func scanHost(rows *sql.Rows) (h fleet.Host, err error) {
	err = rows.Scan(&h.ID, &h.Name, &h.Kind, &h.Region, &h.Address, &h.Binary, &h.Version, &h.CreatedNs, &h.Namespaces, &h.Cells, &h.Store, &h.Run, &h.Lost, &h.Raft,
		&h.DrainingBy, &h.DrainingNs, &h.Zone)
	if h.Zone == "" && h.Kind == keyring.Host {
		h.Zone = h.ID
	}
	h.Draining = h.DrainingNs != 0
	return h, err
}

func noHost(idOrName string) error {
	return api.Errorf(api.NotFound, "there is no host or gateway %q", idOrName)
}

// host finds a host or gateway by id, else NOT_FOUND.
func (tx *Tx) host(id string) (fleet.Host, error) {
	h, found, err := first(tx, scanHost, selectHost+" WHERE id = ?", id)
	if err == nil && !found {
		err = noHost(id)
	}
	return h, err
}

// hostAt finds a host or gateway by id like host. It refuses with PRECONDITION_FAILED a version other than the expected
// one (0 = any).
func (tx *Tx) hostAt(id string, expect int64) (fleet.Host, error) {
	h, err := tx.host(id)
	if err == nil && expect != 0 && expect != h.Version {
		err = api.Errorf(api.PreconditionFailed, "%s is at version %d, the request was made for %d: read it again", h.Name, h.Version, expect)
	}
	return h, err
}

// touchHost raises a host's version, because its status has changed.
func (tx *Tx) touchHost(id string) error {
	return tx.put("UPDATE hosts SET version = version + 1 WHERE id = ?", id)
}

// Host finds a host or gateway by id or name, else NOT_FOUND. If one's id is another's name, the id wins.
func (s *Store) Host(ctx context.Context, idOrName string) (fleet.Host, error) {
	return read(ctx, s, func(r reader) (fleet.Host, error) {
		h, found, err := first(r, scanHost, selectHost+" WHERE id = ?1 OR name = ?1 ORDER BY id = ?1 DESC LIMIT 1", idOrName)
		if err == nil && !found {
			err = noHost(idOrName)
		}
		return h, err
	})
}

// Hosts lists all hosts and gateways by id.
func (s *Store) Hosts(ctx context.Context) ([]fleet.Host, error) {
	return read(ctx, s, func(r reader) ([]fleet.Host, error) { return list(r, scanHost, selectHost+" ORDER BY id") })
}
