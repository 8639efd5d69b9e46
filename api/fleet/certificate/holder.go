package certificate

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
)

// Config describes this process's place in the fleet.
type Config struct {
	Path  string // of the member's file
	Kind  Kind
	Store string // the id of the data directory; only of a host
	// FleetRoot is the fingerprint of the root that the first join trusts, in the form of ParseFingerprint's
	// result.
	FleetRoot string

	Now    func() time.Time // nil = time.Now
	Logger *slog.Logger     // nil = slog.Default()
}

// Holder holds the certificate of this process: it reads the certificate from disk, replaces it, and gives it
// to every handshake. It is safe for concurrent use.
type Holder struct {
	cfg       Config
	replacing sync.Mutex         // held while the file is replaced
	key       ed25519.PrivateKey // the key in the file, or a new one, which Accept writes with the first certificate
	current   atomic.Pointer[Member]
	due       atomic.Bool // the next Request asks for a certificate, whatever the age of the current one
}

// Open reads the member's file. Without a usable file it makes a new key and logs why the member joins anew.
// It returns an error only if the file exists and cannot be read.
func Open(c Config) (*Holder, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	h := &Holder{cfg: c}
	m, err := ReadMember(c.Path, c.Kind, c.Store)
	switch {
	case err == nil:
		h.key = m.key
		h.current.Store(m)
	case errors.Is(err, ErrUnusable):
		level := slog.LevelWarn
		if errors.Is(err, fs.ErrNotExist) {
			level = slog.LevelInfo // every member's first start
		}
		c.Logger.Log(context.Background(), level, "this member has no usable certificate and asks for one when it joins", "reason", err)
		seed := make([]byte, ed25519.SeedSize)
		rand.Read(seed) // never fails, see crypto/rand
		h.key = ed25519.NewKeyFromSeed(seed)
	default:
		return nil, err
	}
	return h, nil
}

// Member returns the current certificate with its key and bundle, or nil before the first join.
func (h *Holder) Member() *Member { return h.current.Load() }

// Stage returns the stage of the current certificate, or Expired before the first join.
func (h *Holder) Stage() Stage {
	m := h.Member()
	if m == nil {
		return Expired
	}
	return m.StageAt(h.cfg.Now())
}

// Remaining returns the time until the current certificate expires. It is 0 after that, and before the first
// join.
func (h *Holder) Remaining() time.Duration {
	m := h.Member()
	if m == nil {
		return 0
	}
	return max(0, m.Ends().Sub(h.cfg.Now()))
}

// Health returns "ok" or a warning about the current certificate, for /readyz. usable is false before the
// first join, and while the certificate is not valid by this process's clock.
func (h *Holder) Health() (check string, usable bool) {
	m, now := h.Member(), h.cfg.Now()
	if m == nil {
		return errNotJoined(h.cfg.Kind).Message, false
	}
	switch m.StageAt(now) {
	case Expired, NotYetValid:
		return errNotValidNow(m.Identity, m.leaf, now).Message, false
	case Alarm:
		return fmt.Sprintf("the certificate expires at %s and could not be renewed: see the log", m.Ends().UTC().Format(time.RFC3339)), true
	}
	return "ok", true
}

// Trust returns the fingerprints of the roots that this member trusts, and of the root of its certificate. They are empty
// before the first join, and if the root of the certificate has left the bundle: the certificate is then useless.
func (h *Holder) Trust() (roots []string, issuer string) {
	m := h.Member()
	if m == nil || m.issuer() == "" {
		return nil, ""
	}
	return m.Bundle.Fingerprints(), m.issuer()
}

// Request returns the request for the next certificate, or nil while the current one needs no renewal. The
// member sends it with its next join.
func (h *Holder) Request() ([]byte, error) {
	if m := h.Member(); m != nil && !m.needsRenewal(h.cfg.Now()) && !h.due.Load() {
		return nil, nil
	}
	return NewRequest(h.key)
}

// Renew makes the next Request ask for a certificate although the current one may need no renewal.
func (h *Holder) Renew() { h.due.Store(true) }

// Accept takes the control plane's answer to a join: the id of this member, a certificate in DER and the
// newest bundle. der is nil if the member requested no certificate. Accept writes the file before any
// handshake uses the new certificate and bundle. It refuses a new certificate that is for another key or
// member, or that other members would refuse now. After an error the current certificate and bundle stay in
// use.
//
// A member that has got the credential of another member has a current certificate with another id. If the
// answer then has no certificate, Accept refuses it, and the next Request asks for one.
func (h *Holder) Accept(id string, der []byte, bundle Bundle) error {
	h.replacing.Lock()
	defer h.replacing.Unlock()
	old, renewed := h.Member(), der != nil
	if der == nil {
		if old == nil {
			return api.Errorf(api.Unauthorized, "the control plane's answer to a join has no certificate")
		}
		if old.Identity.ID != id {
			h.Renew()
			return api.Errorf(api.Unauthorized, "the certificate of this member is of %s, and the control plane calls it %s: the next join asks for another certificate", old.Identity, text.Quote(id))
		}
		der = old.leaf.Raw
	}
	next, err := NewMember(h.key, der, bundle)
	if err != nil {
		return err
	}
	if old != nil && bytes.Equal(old.leaf.Raw, der) {
		if old.Bundle.Equal(bundle) {
			return nil
		}
	} else if err := h.check(next, id); err != nil {
		return err
	}
	if err := next.writeFile(h.cfg.Path); err != nil {
		return err
	}
	h.current.Store(next)
	if renewed {
		h.due.Store(false)
	}
	return nil
}

// check refuses a new certificate that is of another member, or that other members would refuse now.
func (h *Holder) check(m *Member, id string) error {
	if want := (Identity{Kind: h.cfg.Kind, ID: id, Store: h.cfg.Store}); m.Identity != want {
		return api.Errorf(api.Unauthorized, "the control plane issued a certificate to %s, and this is %s: is its credential of another member?", m.Identity, want)
	}
	_, err := m.Bundle.verify(m.leaf, x509.ExtKeyUsageClientAuth, h.cfg.Now())
	return err
}
