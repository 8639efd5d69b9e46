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

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy/token"
)

// The times of signing keys.
const (
	// DefaultSigningPeriod is how long a key signs.
	DefaultSigningPeriod = 24 * time.Hour
	// MinSigningPeriod keeps the keys that are trusted at once well below
	// store.MaxSigningKeys.
	MinSigningPeriod = 5 * time.Minute
	// Announce is how long a new key is published before it signs: followers learn
	// of keys with the heartbeats, and those that hear nothing connect again.
	Announce = 2 * fleet.SilenceLimit
	// Trust is for how long the keys before a new one stay trusted: what they have
	// signed, and sign while the new one is announced, ends well before.
	Trust = 2 * token.Lifetime
	// rotateRetry is how long a rotation that failed waits for its next try.
	rotateRetry = 10 * time.Second
)

// SignerConfig is what a Signer needs.
type SignerConfig struct {
	Store  *store.Store
	Period time.Duration // 0 = DefaultSigningPeriod
	Now    func() time.Time
	Rand   io.Reader
	Logger *slog.Logger
}

// Signer has the keys that sign service tokens and documents, and replaces them in
// time. It is the only one that adds keys to its store.
type Signer struct {
	cfg SignerConfig

	rotating sync.Mutex // held for a whole rotation

	mu      sync.Mutex
	keys    []signingKey // oldest first
	set     token.Set
	jwks    []byte
	goodTil time.Time // when set and jwks hold a key too many; zero = never
}

// signingKey is a key with its times.
type signingKey struct {
	token.Key
	created time.Time
	until   time.Time // trusted; zero = without end
}

// OpenSigner reads the keys of a store, and makes one if there is none or the
// newest has signed long enough.
func OpenSigner(ctx context.Context, c SignerConfig) (*Signer, error) {
	if c.Period == 0 {
		c.Period = DefaultSigningPeriod
	}
	if c.Period < MinSigningPeriod {
		return nil, fmt.Errorf("a signing key for %v: the least is %v", c.Period, MinSigningPeriod)
	}
	g := &Signer{cfg: c}
	if err := g.load(ctx); err != nil {
		return nil, err
	}
	if g.due() > 0 {
		return g, nil
	}
	return g, g.Rotate(ctx)
}

// load reads the keys that are trusted.
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

// publish makes the set of the keys that are trusted now; mu is held.
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

// Trusted are the keys whose signatures are believed now, also as a JWKS.
func (g *Signer) Trusted() (token.Set, []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := g.cfg.Now(); !g.goodTil.IsZero() && !now.Before(g.goodTil) {
		g.publish(now)
	}
	return g.set, g.jwks
}

// Key is the key that signs now: the newest that has been announced.
func (g *Signer) Key() (token.Key, error) {
	g.Trusted() // forgets those whose time is over
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

// due is how long the newest key signs on, 0 or less when it is to be replaced.
func (g *Signer) due() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.keys) == 0 {
		return 0
	}
	return g.cfg.Period - g.cfg.Now().Sub(g.keys[len(g.keys)-1].created)
}

// Rotate adds a key, which signs once it is announced.
func (g *Signer) Rotate(ctx context.Context) error {
	g.rotating.Lock()
	defer g.rotating.Unlock()
	key, err := token.NewKey(g.cfg.Rand)
	if err != nil {
		return err
	}
	_, err = store.Propose[any](ctx, g.cfg.Store, &store.AddSigningKey{
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

// signerPrincipal is who the audit log names for new keys.
const signerPrincipal = "signer"

// Run replaces keys in time until ctx ends.
func (g *Signer) Run(ctx context.Context) {
	for wait := g.due(); ; wait = max(g.due(), 0) {
		timer := time.NewTimer(max(wait, 0))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if g.due() > 0 {
			continue
		}
		err := g.Rotate(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		g.cfg.Logger.Error("the signing key is old and cannot be replaced; trying on", "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(rotateRetry):
		}
	}
}
