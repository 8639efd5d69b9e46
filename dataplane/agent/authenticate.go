package agent

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/token"
)

// Authenticate authenticates a tenant's request that a gateway forwards: the gateway by its service token,
// the tenant by a key in the newest document. If a document with an unknown key may still be on its way,
// Authenticate waits for it. It refuses a request in which either credential is missing or unknown.
func (a *Agent) Authenticate(r *http.Request) (tenancy.Principal, error) {
	now := a.cfg.Now()
	if err := a.checkGateway(r, now); err != nil {
		return tenancy.Principal{}, err
	}
	who, _, err := a.member.Authenticate(r.Context(), a.directory, serve.Credential(r), r.Header.Get(api.NamespaceHeader), nil)
	if err != nil {
		return tenancy.Principal{}, err
	}
	return who, nil
}

// Used records when a key was last used, for the next report.
func (a *Agent) Used(keyID string, at time.Time) { a.used.note(keyID, at.Unix()) }

// Ready returns an error until the host has a catalogue or has received every document that
// existed when it connected.
func (a *Agent) Ready() error {
	if !a.synced.Load() {
		return errors.New("it has not heard from the control plane yet, and has no catalogue of an earlier run")
	}
	return nil
}

// checkGateway refuses a request that did not come from a gateway.
func (a *Agent) checkGateway(r *http.Request, now time.Time) error {
	shown := r.Header.Values(fleet.ServiceHeader)
	if len(shown) != 1 {
		return api.Errorf(api.Unauthorized, "this host takes requests from gateways only, with one %s: send yours to the cloud's endpoint", fleet.ServiceHeader)
	}
	if a.passes.good(shown[0], now) {
		return nil
	}
	verify := a.member.Trusted().Verify
	if !a.member.Connected() {
		verify = a.member.Trusted().VerifyOffline // because the gateway may not reach the control plane either
	}
	claims, err := verify(shown[0], token.Hosts, now)
	if err != nil {
		return err
	}
	if claims.Role != string(tenancy.GatewayMember) {
		return api.Errorf(api.Unauthorized, "the service token of a %s does not bring tenants in: only a gateway's does", claims.Role)
	}
	a.passes.note(shown[0], claims.Expires, now)
	return nil
}

// The limits of passes.
const (
	maxPasses = 1024
	// passLife is the time for which a verified token is not verified again, because a verification costs
	// more than all other work of Authenticate, and a gateway sends one token for minutes.
	passLife = time.Second
)

// passes caches the gateways' tokens that were verified within the last passLife.
type passes struct {
	mu    sync.RWMutex
	until map[string]time.Time
}

func (p *passes) good(text string, now time.Time) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	until, ok := p.until[text]
	return ok && now.Before(until)
}

func (p *passes) note(text string, expires, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.until == nil || len(p.until) >= maxPasses {
		p.until = make(map[string]time.Time)
	}
	p.until[text] = now.Add(passLife)
	if expires.After(now) && expires.Before(p.until[text]) {
		p.until[text] = expires
	}
}

// forget empties the cache, because the set of trusted keys has changed.
func (p *passes) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.until)
}
