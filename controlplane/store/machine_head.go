package store

import (
	"database/sql"
	"fmt"

	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/optable"
)

// head is the row of the table meta, which is the position of the state and its counters, and the feature level.
type head struct {
	applied            entry.Applied
	clockNs            int64
	configuration      []byte // raft's encoding; nil = none yet
	configurationIndex uint64
	docNumber          int64
	auditSeq           int64
	auditHash          []byte // of the newest row of a change
	refusedHash        []byte // of the newest row of refused requests
	refusedAnchor      []byte // of the last removed row of refused requests
	refusedRemoved     int64  // number of that row; 0 = none
	idempotencyRecords int64
	level              uint32 // the feature level in force, of the table feature_levels
}

// readHead reads the head. A state without a head is invalid.
func readHead(q querier) (head, error) {
	h, found, err := first(q, scanHead, `SELECT group_name, incarnation, raft_index, raft_term, clock_ns,
		configuration, configuration_index, doc_number, audit_seq, audit_hash, refused_hash, refused_anchor, refused_removed, idempotency_records,
		(SELECT COALESCE(MAX(level), ?) FROM feature_levels) FROM meta`, optable.FirstLevel)
	if err == nil && !found {
		err = fmt.Errorf("the state has no head")
	}
	return h, err
}

func scanHead(rows *sql.Rows) (head, error) {
	var h head
	var incarnation []byte
	var index, term, configurationIndex, level int64
	err := rows.Scan(&h.applied.Group, &incarnation, &index, &term, &h.clockNs,
		&h.configuration, &configurationIndex, &h.docNumber, &h.auditSeq, &h.auditHash,
		&h.refusedHash, &h.refusedAnchor, &h.refusedRemoved, &h.idempotencyRecords, &level)
	if err == nil && copy(h.applied.Incarnation[:], incarnation) != len(h.applied.Incarnation) {
		err = fmt.Errorf("the state's incarnation has %d bytes", len(incarnation))
	}
	h.applied.Index, h.applied.Term, h.configurationIndex = uint64(index), uint64(term), uint64(configurationIndex)
	h.level = uint32(level)
	return h, err
}

func writeHead(db *database, h head) error {
	_, err := db.exec(`UPDATE meta SET group_name = ?, incarnation = ?, raft_index = ?, raft_term = ?, clock_ns = ?,
		configuration = ?, configuration_index = ?, doc_number = ?, audit_seq = ?, audit_hash = ?,
		refused_hash = ?, refused_anchor = ?, refused_removed = ?, idempotency_records = ?`,
		h.applied.Group, h.applied.Incarnation[:], int64(h.applied.Index), int64(h.applied.Term), h.clockNs,
		h.configuration, int64(h.configurationIndex), h.docNumber, h.auditSeq, h.auditHash,
		h.refusedHash, h.refusedAnchor, h.refusedRemoved, h.idempotencyRecords)
	return err
}
