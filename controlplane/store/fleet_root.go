package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/controlplane/fleet"
)

const (
	// MaxAnnounce is the longest time for which a new root may be announced.
	MaxAnnounce = 30 * 24 * time.Hour
	// RootUse is the time after which every certificate of a root that signs no more has expired. Slew covers
	// processes of the control plane with fast clocks.
	RootUse = certificate.Life + certificate.Slew
	// fingerprintLength is the number of hexadecimal digits of a fingerprint.
	fingerprintLength = 64
)

// selectFleetRoot reads the roots in the order in which they began to sign. An announced root comes last.
const selectFleetRoot = `SELECT r.fingerprint, r.seed, r.certificate, r.created_ns, COALESCE(t.not_before_ns, r.created_ns), COALESCE(t.signs_ns, r.created_ns) AS signs
	FROM fleet_roots r LEFT JOIN fleet_root_times t ON t.fingerprint = r.fingerprint ORDER BY signs = 0, signs`

func scanFleetRoot(rows *sql.Rows) (r fleet.Root, err error) {
	err = rows.Scan(&r.Fingerprint, &r.Seed, &r.Certificate, &r.CreatedNs, &r.NotBeforeNs, &r.SignsNs)
	return r, err
}

func (tx *Tx) roots() ([]fleet.Root, error) { return list(tx, scanFleetRoot, selectFleetRoot) }

// insertRoot stores a root.
func (tx *Tx) insertRoot(fingerprint string, seed, der []byte) error {
	return tx.put("INSERT INTO fleet_roots (fingerprint, seed, certificate, created_ns) VALUES (?, ?, ?, ?)", fingerprint, seed, der, tx.clockNs())
}

// addRoot checks a root's certificate, key and fingerprint.
func (p *problems) addRoot(fingerprint string, seed, der []byte) {
	root, err := certificate.OpenRoot(seed, der)
	p.add("certificate", err)
	if err == nil && root.Fingerprint() != fingerprint {
		p.add("fingerprint", api.Errorf(api.ValidationError, "is not the SHA-256 of the certificate"))
	}
}

// checkFingerprint refuses text that is not the SHA-256 of a root in lower case.
func checkFingerprint(s string) error {
	if got, err := certificate.ParseFingerprint(s); err != nil || got != s {
		return fmt.Errorf("is not the SHA-256 of a root, %d hexadecimal digits in lower case", fingerprintLength)
	}
	return nil
}

// addMemberRoots checks the roots that a member reports. A member with a certificate names its issuer.
func (p *problems) addMemberRoots(trusted []string, issuer string) {
	if len(trusted) > certificate.MaxRoots || (len(trusted) == 0) != (issuer == "") {
		p.add("roots", fmt.Errorf("has %d roots and the issuer %q: a member with a certificate trusts 1 to %d", len(trusted), issuer, certificate.MaxRoots))
	}
	for _, f := range trusted {
		p.add("roots", checkFingerprint(f))
	}
	if issuer != "" {
		p.add("issuer", checkFingerprint(issuer))
	}
}

// FleetRoots lists the roots of the fleet's certificates in the order in which they began to sign: the last one with a
// SignsNs above 0 signs. A root that is only announced comes last.
func (s *Store) FleetRoots(ctx context.Context) ([]fleet.Root, error) {
	return read(ctx, s, func(r reader) ([]fleet.Root, error) { return list(r, scanFleetRoot, selectFleetRoot) })
}

const selectMemberRoots = `SELECT h.id, h.name, m.trusted, m.issuer FROM member_roots m JOIN hosts h ON h.id = m.host`

func scanMemberRoots(rows *sql.Rows) (m fleet.MemberRoots, err error) {
	var trusted string
	err = rows.Scan(&m.ID, &m.Name, &trusted, &m.Issuer)
	m.Trusted = strings.Fields(trusted)
	return m, err
}

// MemberRoots lists, by name, the hosts and gateways with certificates, and the roots that each has reported.
func (s *Store) MemberRoots(ctx context.Context) ([]fleet.MemberRoots, error) {
	return read(ctx, s, func(r reader) ([]fleet.MemberRoots, error) {
		return list(r, scanMemberRoots, selectMemberRoots+" ORDER BY h.name")
	})
}

// MemberRootsOf returns the roots that a member has reported; those of a member without a certificate are zero.
func (s *Store) MemberRootsOf(ctx context.Context, id string) (fleet.MemberRoots, error) {
	return read(ctx, s, func(r reader) (fleet.MemberRoots, error) {
		m, _, err := first(r, scanMemberRoots, selectMemberRoots+" WHERE h.id = ?", id)
		return m, err
	})
}

// keepMemberRoots records the roots that a member reports when it joins. changed tells whether the record was another
// one. A member without a certificate has no record.
func (tx *Tx) keepMemberRoots(id string, trusted []string, issuer string) (changed bool, err error) {
	text := strings.Join(trusted, " ")
	n, err := tx.exec("DELETE FROM member_roots WHERE host = ? AND (trusted <> ? OR issuer <> ?)", id, text, issuer)
	if err != nil || issuer == "" {
		return n > 0, err
	}
	n, err = tx.exec("INSERT INTO member_roots (host, trusted, issuer) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", id, text, issuer)
	return n > 0, err
}

// errRootHeldBack refuses a step of a rotation that members hold back.
func errRootHeldBack(reason string, members []fleet.MemberRoots) error {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.Name
	}
	refused := api.Errorf(api.StateConflict, "%s: %s", reason, strings.Join(names, ", "))
	refused.Details = map[string]any{"members": names}
	return refused
}
