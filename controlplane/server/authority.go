package server

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/controlplane/store"
)

// Authority is the authority for the certificates of hosts, gateways and the control plane's server side (ADR
// 0068). An Authority never changes.
type Authority struct {
	root   *certificate.Root
	bundle certificate.Bundle
}

// OpenAuthority loads the root from a store. If the store has no root, OpenAuthority adds a new one. If
// another process of the control plane adds a root first, OpenAuthority loads that root.
func OpenAuthority(ctx context.Context, s *store.Store, now func() time.Time, random io.Reader) (*Authority, error) {
	a, err := loadAuthority(ctx, s)
	if a != nil || err != nil {
		return a, err
	}
	root, err := certificate.NewRoot(now(), random)
	if err != nil {
		return nil, err
	}
	_, err = store.Propose[any](ctx, s, &store.AddFleetRoot{
		Meta: &store.Meta{Principal: authorityPrincipal}, Fingerprint: root.Fingerprint(), Seed: root.Seed(), Certificate: root.DER(),
	})
	if api.CodeOf(err) == api.Conflict {
		err = s.Verify(ctx) // the root of the other process may not have reached this one yet
	}
	if err != nil {
		return nil, fmt.Errorf("add the fleet's root: %w", err)
	}
	if a, err = loadAuthority(ctx, s); err == nil && a == nil {
		err = fmt.Errorf("the fleet's root %s was added and is not in the store", root.Fingerprint())
	}
	return a, err
}

// authorityPrincipal is the principal of a new root in the audit log.
const authorityPrincipal = "authority"

// loadAuthority reads the root. It returns nil if there is none.
func loadAuthority(ctx context.Context, s *store.Store) (*Authority, error) {
	records, err := s.FleetRoots(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the fleet's root: %w", err)
	}
	if len(records) == 0 {
		return nil, nil
	}
	a := &Authority{}
	if a.root, err = certificate.OpenRoot(records[0].Seed, records[0].Certificate); err == nil {
		a.bundle, err = certificate.NewBundle(records[0].Certificate)
	}
	if err != nil {
		return nil, fmt.Errorf("the fleet's root %s: %w", records[0].Fingerprint, err)
	}
	return a, nil
}

// Certify issues a certificate to this process of the control plane if held.Request says that one is due.
// Each process certifies itself, because the root's key is in the state of every process. names are the DNS
// names and IP addresses at which operators reach the process.
func (a *Authority) Certify(held *certificate.Holder, id string, names []string, now time.Time, random io.Reader) error {
	request, err := held.Request()
	if request == nil || err != nil {
		return err
	}
	der, err := a.root.Issue(request, certificate.Identity{Kind: certificate.ControlPlane, ID: id}, names, now, random)
	if err != nil {
		return err
	}
	return held.Accept(id, der, a.bundle)
}

// Bundle returns the roots that members trust.
func (a *Authority) Bundle() certificate.Bundle { return a.bundle }

// Fingerprint returns the SHA-256 of the root that issues certificates.
func (a *Authority) Fingerprint() string { return a.root.Fingerprint() }
