package server

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy/token"
)

// Durations of signing keys.
const (
	// DefaultSigningPeriod is the time for which a key signs.
	DefaultSigningPeriod = 24 * time.Hour
	// MinSigningPeriod keeps the number of keys trusted at the same time well below store.MaxSigningKeys.
	MinSigningPeriod = 5 * time.Minute
	// Announce is the time for which a new key is published before it signs. Followers learn of keys from
	// heartbeats, and a follower without heartbeats connects again within SilenceLimit.
	Announce = 2 * fleet.SilenceLimit
	// Trust is the time for which older keys stay trusted after a new key was created. It exceeds Announce
	// and the lifetime of a token together, because an older key signs until the announcement ends.
	Trust = 2 * token.Lifetime
	// rotateRetry is the wait after a failed rotation.
	rotateRetry = 10 * time.Second
	// leaderPoll is the pause of OpenSigner between two checks for a first key or for leadership.
	leaderPoll = 100 * time.Millisecond
)

// SignerConfig configures a Signer. Only Period may be zero.
type SignerConfig struct {
	Store  *store.Store
	Period time.Duration // 0 = DefaultSigningPeriod
	Now    func() time.Time
	Rand   io.Reader
	Logger *slog.Logger
}

// Signer holds the keys that sign service tokens and documents. The leader's Signer rotates them, and the
// Signers of the other processes follow. Nothing else adds keys to the store.
type Signer struct {
	cfg SignerConfig

	rotating sync.Mutex // held for a whole rotation

	mu      sync.Mutex
	keys    []signingKey // oldest first
	set     token.Set
	jwks    []byte
	goodTil time.Time // when the first key in set and jwks ceases to be trusted; zero = never
}

// signingKey is a key with its times.
type signingKey struct {
	token.Key
	created time.Time
	until   time.Time // end of trust; zero = none
}

// OpenSigner loads the keys of a store. If the store has no key, or its newest key is at least Period old,
// the leader adds a key. A process that does not lead waits until the store has a trusted key, and gets
// LEADER_UNAVAILABLE if ctx ends first.
func OpenSigner(ctx context.Context, c SignerConfig) (*Signer, error) {
	if c.Period == 0 {
		c.Period = DefaultSigningPeriod
	}
	if c.Period < MinSigningPeriod {
		return nil, fmt.Errorf("a signing key for %v: the least is %v", c.Period, MinSigningPeriod)
	}
	g := &Signer{cfg: c}
	for {
		_, changed := c.Store.Changes()
		if err := g.load(ctx); err != nil {
			return nil, err
		}
		if g.due() > 0 {
			return g, nil
		}
		if term, leads := c.Store.LeadingTerm(); leads {
			return g, g.Rotate(ctx, term)
		}
		if _, err := g.Key(); err == nil {
			return g, nil
		}
		select {
		case <-changed:
		case <-time.After(leaderPoll): // this process may lead now
		case <-ctx.Done():
			return nil, api.Wrap(context.Cause(ctx), api.LeaderUnavailable, "no leader of the control plane has created a signing key yet")
		}
	}
}

// load reads the keys from the store and publishes the trusted ones.
func (g *Signer) load(ctx context.Context) error {
	records, err := g.cfg.Store.SigningKeys(ctx)
	if err != nil {
		return fmt.Errorf("read the signing keys: %w", err)
	}
	keys := make([]signingKey, len(records))
	for i, rec := range records {
		key, err := token.KeyFromSeed(rec.Seed)
		if err != nil {
			return fmt.Errorf("signing key %s: %w", rec.ID, err)
		}
		keys[i] = signingKey{Key: key, created: time.Unix(0, rec.CreatedNs)}
		if rec.TrustedUntilNs != 0 {
			keys[i].until = time.Unix(0, rec.TrustedUntilNs)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.keys = keys
	g.publish(g.cfg.Now())
	return nil
}

// publish drops the keys that are no longer trusted and builds the set and the JWKS from the others. The
// caller holds mu.
func (g *Signer) publish(now time.Time) {
	var trusted []signingKey
	var public []ed25519.PublicKey
	g.goodTil = time.Time{}
	for _, k := range g.keys {
		if !k.until.IsZero() && !now.Before(k.until) {
			continue
		}
		if !k.until.IsZero() && (g.goodTil.IsZero() || k.until.Before(g.goodTil)) {
			g.goodTil = k.until
		}
		trusted = append(trusted, k)
		public = append(public, k.Public())
	}
	g.keys = trusted
	g.set = token.NewSet(public...)
	g.jwks = g.set.JWKS()
}

// Trusted returns the keys that are trusted now, as a set and as a JWKS.
func (g *Signer) Trusted() (token.Set, []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := g.cfg.Now(); !g.goodTil.IsZero() && !now.Before(g.goodTil) {
		g.publish(now)
	}
	return g.set, g.jwks
}

// Key returns the key that signs now: the newest one whose announcement is over, or the oldest if no
// announcement is over.
func (g *Signer) Key() (token.Key, error) {
	g.Trusted() // drops the keys that are no longer trusted
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.keys) == 0 {
		return token.Key{}, errors.New("there is no signing key")
	}
	now := g.cfg.Now()
	for i := len(g.keys) - 1; i > 0; i-- {
		if now.Sub(g.keys[i].created) >= Announce {
			return g.keys[i].Key, nil
		}
	}
	return g.keys[0].Key, nil
}

// due returns the time until the newest key must be replaced. The time may be negative; it is 0 if there is
// no key.
func (g *Signer) due() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.keys) == 0 {
		return 0
	}
	return g.cfg.Period - g.cfg.Now().Sub(g.keys[len(g.keys)-1].created)
}

// Rotate adds a key in a term of this process's leadership. The key signs after its announcement, or at once
// if no older key is trusted.
func (g *Signer) Rotate(ctx context.Context, term uint64) error {
	g.rotating.Lock()
	defer g.rotating.Unlock()
	key, err := token.NewKey(g.cfg.Rand)
	if err != nil {
		return err
	}
	_, err = store.ProposeInTerm[any](ctx, g.cfg.Store, term, &store.AddSigningKey{
		Meta:           &store.Meta{Principal: signerPrincipal},
		Id:             key.ID,
		Seed:           key.Seed(),
		TrustedUntilNs: g.cfg.Store.ClockNs() + Trust.Nanoseconds(),
	})
	if err != nil {
		return fmt.Errorf("add a signing key: %w", err)
	}
	return g.load(ctx)
}

// signerPrincipal is the principal of new keys in the audit log.
const signerPrincipal = "signer"

// Run follows the keys of the store until ctx ends, and rotates them in time while this process leads. If the
// store fails, Run logs the failure and rotates no more keys.
func (g *Signer) Run(ctx context.Context) {
	var following sync.WaitGroup
	following.Go(func() { g.follow(ctx) })
	defer following.Wait()
	if err := g.cfg.Store.Lead(ctx, g.lead); err != nil && ctx.Err() == nil {
		g.cfg.Logger.Error("the signer has stopped, because the store has", "error", err)
	}
}

// follow loads the keys after each change of the store, because another process may have added one.
func (g *Signer) follow(ctx context.Context) {
	for {
		_, changed := g.cfg.Store.Changes()
		if err := g.refresh(ctx); err != nil && ctx.Err() == nil {
			g.cfg.Logger.Error("the signing keys cannot be read; they are read again at the next change", "error", err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// refresh loads the keys. It waits for a rotation in progress, so that it never replaces the new keys by
// those that it read before the rotation.
func (g *Signer) refresh(ctx context.Context) error {
	g.rotating.Lock()
	defer g.rotating.Unlock()
	return g.load(ctx)
}

// lead rotates keys in time during one term.
func (g *Signer) lead(ctx context.Context, term uint64) error {
	for wait := g.due(); ; wait = max(g.due(), 0) {
		timer := time.NewTimer(max(wait, 0))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
		err := g.refresh(ctx) // the leader before may have rotated them
		if err == nil && g.due() > 0 {
			continue
		}
		if err == nil {
			err = g.Rotate(ctx, term)
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		g.cfg.Logger.Error("the signing key is due for replacement and cannot be replaced; the leader tries again", "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(rotateRetry):
		}
	}
}
