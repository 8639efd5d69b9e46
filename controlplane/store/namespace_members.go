package store

import (
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/fleet"
)

// memberColumns select the members of a namespace, those of the list first, and the last reported configurations of its
// groups.
const memberColumns = `, (SELECT json_group_array(` + memberObject + ` ORDER BY m.position)
		FROM members m JOIN stores s ON s.id = m.store LEFT JOIN hosts h ON h.id = s.host WHERE m.namespace = namespaces.id),
	(SELECT c.indexes FROM configurations c WHERE c.namespace = namespaces.id)`

// memberObject builds the JSON of a fleet.GroupMember from the rows m, s and h.
const memberObject = `json_object('Store', s.id, 'Host', s.host, 'URL', COALESCE(h.address, ''), 'Raft', COALESCE(h.raft, ''),
		'Lost', json(iif(s.lost_ns > 0, 'true', 'false')), 'Leaving', json(iif(m.leaving, 'true', 'false')))`

// membersColumn scans a JSON array of members. It is nil for an empty one.
type membersColumn []fleet.GroupMember

func (c *membersColumn) Scan(value any) error {
	*c = nil
	text, ok := value.(string)
	if !ok {
		return fmt.Errorf("the members of a namespace are %T", value)
	}
	if text == "[]" {
		return nil
	}
	return json.Unmarshal([]byte(text), (*[]fleet.GroupMember)(c))
}

// indexesColumn scans the column configurations.indexes. It is nil for a namespace without a row.
type indexesColumn []uint64

func (c *indexesColumn) Scan(value any) error {
	*c = nil
	if value == nil {
		return nil
	}
	stored, ok := value.([]byte)
	if !ok || len(stored)%8 != 0 {
		return fmt.Errorf("the configurations of a namespace are %T of %d bytes", value, len(stored))
	}
	for ; len(stored) > 0; stored = stored[8:] {
		*c = append(*c, binary.BigEndian.Uint64(stored))
	}
	return nil
}

// putConfigurations writes the indexes of the configurations of a namespace's groups.
func (tx *Tx) putConfigurations(namespace string, indexes []uint64) error {
	var stored []byte
	for _, index := range indexes {
		stored = binary.BigEndian.AppendUint64(stored, index)
	}
	return tx.put("INSERT OR REPLACE INTO configurations (namespace, indexes) VALUES (?, ?)", namespace, stored)
}

// setMembers replaces the members of a namespace, and raises the version of each host that has more or fewer of them
// then. The caller writes the namespace.
func (tx *Tx) setMembers(n *fleet.Namespace, members []fleet.GroupMember) error {
	if _, err := tx.exec("DELETE FROM members WHERE namespace = ?", string(n.ID)); err != nil {
		return err
	}
	for i, m := range members {
		err := tx.put("INSERT INTO members (namespace, store, position, leaving, deleted) VALUES (?, ?, ?, ?, 0)", string(n.ID), m.Store, i, m.Leaving)
		if err != nil {
			return err
		}
	}
	before := n.Members
	n.Members = members
	return tx.touchHosts(before, members)
}

// touchHosts raises the version of each host whose number of members differs between two lists.
func (tx *Tx) touchHosts(before, after []fleet.GroupMember) error {
	more := map[string]int{}
	var hosts []string
	for _, m := range before {
		more[m.Host]--
		hosts = append(hosts, m.Host)
	}
	for _, m := range after {
		more[m.Host]++
		hosts = append(hosts, m.Host)
	}
	slices.Sort(hosts)
	for _, host := range slices.Compact(hosts) {
		if more[host] == 0 {
			continue
		}
		if err := tx.touchHost(host); err != nil {
			return err
		}
	}
	return nil
}

// newMember returns a member on a store, else NOT_FOUND.
func (tx *Tx) newMember(store string) (m fleet.GroupMember, err error) {
	scan := func(rows *sql.Rows) (c membersColumn, err error) { return c, rows.Scan(&c) }
	found, _, err := first(tx, scan, `SELECT json_group_array(`+memberObject+`)
		FROM stores s LEFT JOIN hosts h ON h.id = s.host, (SELECT 0 AS leaving) m WHERE s.id = ?`, store)
	switch {
	case err != nil:
		return m, err
	case len(found) == 0:
		return m, api.Errorf(api.NotFound, "there is no store %q", store)
	}
	return found[0], nil
}

// wireMembers returns the members in the form of documents.
func wireMembers(n fleet.Namespace) []wire.GroupMember {
	var all []wire.GroupMember
	for i, m := range n.Members {
		role := wire.Join
		switch {
		case m.Leaving:
			role = wire.Leaving
		case m.Store == n.RecoveredFrom:
			role = wire.Recover
		case i == 0:
			role = storeRole(n)
		}
		all = append(all, wire.GroupMember{Store: m.Store, Host: m.Host, URL: m.URL, Raft: m.Raft, Role: role})
	}
	return all
}

// storesOf returns the stores of members.
func storesOf(members []fleet.GroupMember) []string {
	stores := make([]string, len(members))
	for i, m := range members {
		stores[i] = m.Store
	}
	return stores
}
