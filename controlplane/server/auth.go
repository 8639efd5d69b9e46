package server

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
	"github.com/corvo/corvo/tenancy/token"
)

// authenticate returns the principal of a request that carries a cloud token, an operator's key or a fleet
// credential. It first waits until this process has every acknowledged change, except on the metrics routes.
// Only authenticate and authenticateMember build principals, so that no other code decides the organisation
// of a caller.
func (s *Server) authenticate(r *http.Request) (tenancy.Principal, error) {
	text := serve.Credential(r)
	if text == "" {
		return tenancy.Principal{}, api.Errorf(api.Unauthorized, "no credential: send Authorization: Bearer TOKEN, or X-API-Key: TOKEN")
	}
	// Operators need the metrics of each process most while there is no leader.
	if r.URL.Path != metricsPath && r.URL.Path != scrapePath {
		if err := s.verify(r.Context()); err != nil {
			return tenancy.Principal{}, err
		}
	}
	now := s.cfg.Now()
	key, err := keyring.Verify(credentials{s.store}, text, now, keyring.Org, keyring.CloudOperator, keyring.Host, keyring.Gateway)
	if err != nil {
		return tenancy.Principal{}, err
	}
	c, ok := s.store.Credential(key.ID)
	if !ok {
		return tenancy.Principal{}, api.Errorf(api.Unauthorized, "the credential was revoked this moment")
	}
	s.lastUsed.mark(key.ID, now.Unix())
	who := tenancy.Principal{Org: tenancy.EveryOrg, KeyID: key.ID, Name: key.Name}
	// The caller's text and the stored credential both name a kind. The stored kind decides. It also decides
	// the roles, except that a tenant's credential has roles and a queue scope of its own.
	switch c.Kind {
	case keyring.Org:
		who.Org, who.Roles, who.QueueScope = tenancy.OrgID(c.Owner), key.Roles, key.QueueScope
	case keyring.CloudOperator:
		who.Roles = []tenancy.Role{tenancy.CloudOperator}
	case keyring.Host, keyring.Gateway:
		who.Roles = []tenancy.Role{tenancy.Joiner}
	default:
		return tenancy.Principal{}, api.Errorf(api.Unauthorized, "a credential of kind %q opens nothing here", c.Kind)
	}
	return who, nil
}

// credentials finds keys in the store.
type credentials struct{ store *store.Store }

func (c credentials) Key(id string) (tenancy.Key, bool) {
	credential, ok := c.store.Credential(id)
	return credential.Key, ok
}

// member is a host or gateway that has joined.
type member struct {
	host    fleet.Host
	run     int64     // of the host's process; 0 for a gateway
	expires time.Time // when the server begins to refuse the token, leeway included
}

// memberOnly wraps a handler for hosts and gateways, which authenticate with a service token. The routes
// table declares these routes open, because a row has one permission but hosts and gateways each have their
// own. memberOnly therefore authenticates the member before it reads anything else of the request.
func (s *Server) memberOnly(handle func(http.ResponseWriter, *http.Request, member) error) serve.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		m, err := s.authenticateMember(r)
		if err != nil {
			return err
		}
		return handle(w, r, m)
	}
}

// rights maps the role in a service token to the permission that the role must grant.
var rights = map[tenancy.Role]tenancy.Permission{
	tenancy.HostMember:    tenancy.FleetHost,
	tenancy.GatewayMember: tenancy.FleetGateway,
}

func (s *Server) authenticateMember(r *http.Request) (member, error) {
	text := serve.Credential(r)
	if text == "" {
		return member{}, api.Errorf(api.Unauthorized, "no service token: join with a fleet credential first")
	}
	if err := s.verify(r.Context()); err != nil {
		return member{}, err
	}
	set, _ := s.cfg.Signer.Trusted()
	claims, err := set.Verify(text, token.ControlPlane, s.cfg.Now())
	if err != nil {
		return member{}, err
	}
	role := tenancy.Role(claims.Role)
	who := tenancy.Principal{Org: tenancy.EveryOrg, KeyID: claims.Subject, Roles: []tenancy.Role{role}}
	if err := tenancy.Allow(who, rights[role], tenancy.Where{Org: tenancy.EveryOrg}); err != nil {
		return member{}, err
	}
	host, err := s.store.Host(r.Context(), claims.Subject)
	if api.CodeOf(err) == api.NotFound || err == nil && (host.ID != claims.Subject || roleOf(host.Kind) != role) {
		return member{}, api.Errorf(api.Unauthorized, "the service token belongs to no registered host or gateway")
	}
	if err != nil {
		return member{}, err
	}
	ok, err := s.mayJoin(r.Context(), host.ID)
	if err != nil {
		return member{}, err
	}
	if !ok {
		return member{}, api.Errorf(api.Unauthorized, "the credential of %s was revoked", host.Name)
	}
	if claims.Run < host.Run {
		return member{}, store.Superseded(host)
	}
	if err := checkPeer(r, host); err != nil {
		return member{}, err
	}
	s.cfg.Observations.Touch(host.ID)
	return member{host: host, run: claims.Run, expires: claims.Expires.Add(token.Leeway)}, nil
}

// checkPeer refuses a TLS request whose client certificate is missing or names another member or store. A
// stolen service token is therefore useless without the member's private key, and a certificate copied from a
// lost disk is useless too.
func checkPeer(r *http.Request, host fleet.Host) error {
	if r.TLS == nil {
		return nil // plain HTTP on loopback
	}
	want := certificate.Identity{Kind: kindOf(host.Kind), ID: host.ID, Store: host.Store}
	peer, ok := certificate.PeerOf(r.TLS)
	switch {
	case !ok:
		return api.Errorf(api.Unauthorized, "the service token of %s comes without its certificate: join over TLS first", want)
	case peer != want:
		return api.Errorf(api.Unauthorized, "the service token of %s comes with the certificate of %s", want, peer)
	}
	return nil
}

// roleOf returns the role of a host or gateway, and "" for any other kind.
func roleOf(kind keyring.Kind) tenancy.Role {
	switch kind {
	case keyring.Host:
		return tenancy.HostMember
	case keyring.Gateway:
		return tenancy.GatewayMember
	}
	return ""
}

// mayJoin reports whether a host or gateway still has a valid credential. A service token cannot be recalled,
// so the server refuses it once the last credential was revoked or has expired.
func (s *Server) mayJoin(ctx context.Context, host string) (bool, error) {
	all, err := s.store.Credentials(ctx, host)
	if err != nil {
		return false, err
	}
	now := s.cfg.Now()
	for _, c := range all {
		if c.Enabled && !c.Expired(now) {
			return true, nil
		}
	}
	return false, nil
}

// lastUsed holds the time at which each credential was last used, in Unix seconds. The times are only in
// memory, because a log entry for each request would cost more than the request. Callers mark only existing
// credentials. Once the number of ids has doubled since the last sweep, mark drops the ids of credentials
// that no longer exist.
type lastUsed struct {
	byID    sync.Map // id -> *atomic.Int64
	exists  func(id string) bool
	entries atomic.Int64 // number of ids
	sweepAt atomic.Int64 // number of ids at which the next sweep begins
	sweeper sync.Mutex
}

// minLastUsed is the number of ids below which none are dropped.
const minLastUsed = 1024

func (l *lastUsed) mark(id string, unix int64) {
	at, ok := l.byID.Load(id)
	if !ok {
		if at, ok = l.byID.LoadOrStore(id, new(atomic.Int64)); !ok && l.entries.Add(1) >= max(minLastUsed, l.sweepAt.Load()) {
			l.sweep()
		}
	}
	newest := at.(*atomic.Int64)
	for {
		old := newest.Load()
		if unix <= old || newest.CompareAndSwap(old, unix) {
			return
		}
	}
}

// sweep drops the ids of credentials that do not exist. It does nothing while another sweep runs.
func (l *lastUsed) sweep() {
	if !l.sweeper.TryLock() {
		return
	}
	defer l.sweeper.Unlock()
	l.byID.Range(func(id, _ any) bool {
		if !l.exists(id.(string)) {
			l.byID.Delete(id)
			l.entries.Add(-1)
		}
		return true
	})
	l.sweepAt.Store(2 * l.entries.Load())
}

func (l *lastUsed) unix(id string) int64 {
	if at, ok := l.byID.Load(id); ok {
		return at.(*atomic.Int64).Load()
	}
	return 0
}
