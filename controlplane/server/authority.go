package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/controlplane/store"
)

const (
	// joinsPerSecond is the rate at which members shall join because of a change of the roots.
	joinsPerSecond = 20
	// rotateRootPoll is the pause between two looks at a rotation under way, for its steps that wait for a time.
	rotateRootPoll = 10 * time.Second
	// authorityPrincipal is the principal of the authority's own steps in the audit log.
	authorityPrincipal = "authority"
)

// AuthorityConfig configures an Authority. All fields are required.
type AuthorityConfig struct {
	Store  *store.Store
	Now    func() time.Time
	Rand   io.Reader
	Logger *slog.Logger
}

// Authority is the authority for the certificates of hosts, gateways and the control plane's server side (ADRs 0068 and
// 0083). It has the roots of the store. While this process leads, the Authority makes the steps of a rotation as
// soon as their conditions hold. It is safe for concurrent use.
type Authority struct {
	cfg     AuthorityConfig
	loading sync.Mutex // held while the roots are read, so that older ones never replace newer ones
	current atomic.Pointer[fleetRoots]
}

// fleetRoots are the roots of the store at a time. They never change.
type fleetRoots struct {
	records []fleet.Root
	signer  *certificate.Root
	bundle  certificate.Bundle
	members int // number of members with certificates
}

// OpenAuthority loads the roots from a store. If the store has no root, OpenAuthority adds a new one. If
// another process of the control plane adds a root first, OpenAuthority loads that root.
func OpenAuthority(ctx context.Context, c AuthorityConfig) (*Authority, error) {
	a := &Authority{cfg: c}
	if err := a.refresh(ctx); err != nil || a.current.Load() != nil {
		return a, err
	}
	root, err := certificate.NewRoot(c.Now(), c.Rand)
	if err != nil {
		return nil, err
	}
	_, err = store.Propose[any](ctx, c.Store, &store.AddFleetRoot{
		Meta: &store.Meta{Principal: authorityPrincipal}, Fingerprint: root.Fingerprint(), Seed: root.Seed(), Certificate: root.DER(),
	})
	if api.CodeOf(err) == api.Conflict {
		err = c.Store.Verify(ctx) // the root of the other process may not have reached this one yet
	}
	if err != nil {
		return nil, fmt.Errorf("add the fleet's root: %w", err)
	}
	if err = a.refresh(ctx); err == nil && a.current.Load() == nil {
		err = fmt.Errorf("the fleet's root %s was added and is not in the store", root.Fingerprint())
	}
	return a, err
}

// refresh reads the roots. It changes nothing if the store has none.
func (a *Authority) refresh(ctx context.Context) error {
	a.loading.Lock()
	defer a.loading.Unlock()
	records, err := a.cfg.Store.FleetRoots(ctx)
	if err != nil {
		return fmt.Errorf("read the fleet's roots: %w", err)
	}
	members, err := a.cfg.Store.MemberRoots(ctx)
	if err != nil {
		return fmt.Errorf("read the roots that the members trust: %w", err)
	}
	if len(records) == 0 {
		return nil
	}
	next := &fleetRoots{records: records, members: len(members)}
	var ders [][]byte
	for _, r := range records {
		ders = append(ders, r.Certificate)
		if r.SignsNs == 0 {
			continue
		}
		if next.signer, err = certificate.OpenRoot(r.Seed, r.Certificate); err != nil {
			return fmt.Errorf("the fleet's root %s: %w", r.Fingerprint, err)
		}
	}
	if next.bundle, err = certificate.NewBundle(ders...); err != nil {
		return fmt.Errorf("the fleet's roots: %w", err)
	}
	a.current.Store(next)
	return nil
}

// Certify gives this process of the control plane the newest bundle. It issues a certificate to the process if
// held.Request says that one is due, or if another root signs now. Each process certifies itself, because the
// roots' keys are in the state of every process. names are the DNS names and IP addresses at which operators reach the
// process.
func (a *Authority) Certify(held *certificate.Holder, id string, names []string, now time.Time, random io.Reader) error {
	current := a.current.Load()
	if _, issuer := held.Trust(); issuer != current.signer.Fingerprint() {
		held.Renew()
	}
	request, err := held.Request()
	if err != nil {
		return err
	}
	var der []byte
	if request != nil {
		if der, err = current.signer.Issue(request, certificate.Identity{Kind: certificate.ControlPlane, ID: id}, names, now, random); err != nil {
			return err
		}
	}
	return held.Accept(id, der, current.bundle)
}

// Bundle returns the roots that members trust.
func (a *Authority) Bundle() certificate.Bundle { return a.current.Load().bundle }

// Fingerprint returns the SHA-256 of the root that issues certificates.
func (a *Authority) Fingerprint() string { return a.current.Load().signer.Fingerprint() }

// tell adds the roots to a message for a member.
func (c *fleetRoots) tell(m *wire.Message) {
	m.Roots, m.Signer = &c.bundle, c.signer.Fingerprint()
	m.WithinMs = int64(c.members) * 1000 / joinsPerSecond
}

// same reports whether members need no message about c after one about other.
func (c *fleetRoots) same(other *fleetRoots) bool {
	return other != nil && c.bundle.Equal(other.bundle) && c.signer.Fingerprint() == other.signer.Fingerprint()
}

// Run follows the roots of the store until ctx ends, and makes the steps of rotations while this process leads. It calls
// changed at the start and after each change of the roots.
func (a *Authority) Run(ctx context.Context, changed func()) {
	var following sync.WaitGroup
	following.Go(func() { a.follow(ctx, changed) })
	defer following.Wait()
	if err := a.cfg.Store.Lead(ctx, a.lead); err != nil && ctx.Err() == nil {
		a.cfg.Logger.Error("the rotation of the fleet's root has stopped, because the store has", "error", err)
	}
}

func (a *Authority) follow(ctx context.Context, changed func()) {
	var told *fleetRoots // of which changed was called last; refresh has other callers
	for {
		_, wake := a.cfg.Store.Changes()
		if err := a.refresh(ctx); err != nil && ctx.Err() == nil {
			a.cfg.Logger.Error("the fleet's roots cannot be read; they are read again at the next change", "error", err)
		}
		if now := a.current.Load(); !now.same(told) {
			told = now
			changed()
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return
		}
	}
}

// lead makes the steps of rotations during one term.
func (a *Authority) lead(ctx context.Context, term uint64) error {
	for ctx.Err() == nil {
		_, wake := a.cfg.Store.Changes()
		under, err := a.step(ctx, term)
		if err != nil && ctx.Err() == nil {
			a.cfg.Logger.Error("the rotation of the fleet's root waits; the leader tries again", "error", err)
		}
		var poll <-chan time.Time
		if under {
			poll = time.After(rotateRootPoll)
		}
		select {
		case <-ctx.Done():
		case <-wake:
		case <-poll:
		}
	}
	return ctx.Err()
}

// step makes the next step of a rotation if its condition holds. under tells whether a rotation is under way. The state
// checks the condition again; the check here only keeps refused steps out of the log.
func (a *Authority) step(ctx context.Context, term uint64) (under bool, err error) {
	records, err := a.cfg.Store.FleetRoots(ctx)
	if err != nil || len(records) < 2 {
		return err != nil, err
	}
	old, young := records[0], records[len(records)-1]
	members, err := a.cfg.Store.MemberRoots(ctx)
	if err != nil {
		return true, err
	}
	now := max(a.cfg.Now().UnixNano(), a.cfg.Store.ClockNs())
	meta := &store.Meta{Principal: authorityPrincipal}
	switch {
	case young.SignsNs == 0 && now >= young.NotBeforeNs && len(holdingBack(young, members)) == 0:
		_, err = store.ProposeInTerm[any](ctx, a.cfg.Store, term, &store.SwitchFleetRoot{Meta: meta, Fingerprint: young.Fingerprint})
	case young.SignsNs != 0 && (len(holdingBack(old, members)) == 0 || now >= young.SignsNs+store.RootUse.Nanoseconds()):
		_, err = store.ProposeInTerm[any](ctx, a.cfg.Store, term, &store.RetireFleetRoot{Meta: meta, Fingerprint: old.Fingerprint})
	}
	return true, err
}

// holdingBack returns the members that hold back the next step of a root: of an announced one those that do not trust it,
// and of one that signed before those that have its certificates.
func holdingBack(r fleet.Root, members []fleet.MemberRoots) []fleet.MemberRoots {
	return slices.DeleteFunc(slices.Clone(members), func(m fleet.MemberRoots) bool {
		if r.SignsNs == 0 {
			return m.Trusts(r.Fingerprint)
		}
		return m.Issuer != r.Fingerprint
	})
}
