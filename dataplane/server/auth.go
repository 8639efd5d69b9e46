package server

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/router"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// authenticate says who sends a request. It and the Door it asks are the only
// places where a principal, and with it a namespace, is made.
func (s *Server) authenticate(r *http.Request) (tenancy.Principal, error) {
	if s.cfg.Dev {
		if err := checkDirect(r); err != nil {
			return tenancy.Principal{}, err
		}
		return tenancy.Principal{Namespace: s.cfg.Namespace, Name: "dev", Open: true}, nil
	}
	if s.cloud() {
		who, err := s.cfg.Door.Enter(r)
		if err == nil {
			s.cfg.Door.Used(who.KeyID, s.cfg.Now())
		}
		return who, err
	}
	text := serve.Credential(r)
	if text == "" {
		return tenancy.Principal{}, api.Errorf(api.Unauthorized, "no API key: send Authorization: Bearer KEY, or X-API-Key: KEY")
	}
	shards, err := router.Open(s.cfg.Host, s.cfg.Namespace)
	if err != nil {
		return tenancy.Principal{}, err
	}
	now := s.cfg.Now()
	keys := keySource{shards.Home().State()}
	key, err := keyring.Verify(keys, text, now, keyring.Namespace)
	if err != nil && s.mayBeNew(r.Context(), shards.Home(), keys, text) {
		key, err = keyring.Verify(keys, text, now, keyring.Namespace)
	}
	if err != nil {
		return tenancy.Principal{}, err
	}
	s.markUsed(key.ID, now.UnixNano())
	return key.Principal(s.cfg.Namespace), nil
}

// How a key is waited for that this node has never heard of.
const (
	// newKeyWait bounds the wait: a follower has what its leader has within
	// milliseconds, if it is in contact at all.
	newKeyWait = time.Second
	// maxNewKeys bounds the requests that wait so at once; those above it are
	// strangers until shown otherwise.
	maxNewKeys = 64
)

// mayBeNew waits until this node has all keys that were made before the request
// came, if it may lack one: a key works at every node as soon as one has answered
// its creation. It reports whether it is worth to look again. The leader lacks
// none; and strangers, who can make a node wait, cost it one question to the
// leader for all of them together.
func (s *Server) mayBeNew(ctx context.Context, home *cell.Cell, keys keySource, text string) bool {
	kind, id, ok := keyring.Parse(text)
	if !ok || kind != keyring.Namespace || home.Leader() {
		return false
	}
	if _, known := keys.Key(id); known || !s.newKeys.take(1) {
		return false
	}
	defer s.newKeys.give(1)
	ctx, cancel := context.WithTimeout(ctx, newKeyWait)
	defer cancel()
	return home.Verify(ctx) == nil
}

// park waits for work, as host.Park does. A poll whose key is revoked meanwhile
// ends at once, not when there is work.
func (s *Server) park(ctx context.Context, r *http.Request, q *request, queues []string) error {
	return s.cfg.Host.Park(ctx, q.who.Namespace, queues, func() error {
		who, err := s.authenticate(r)
		if err != nil {
			return err
		}
		if who.Namespace != q.who.Namespace {
			return api.Errorf(api.Unauthorized, "the key opens another namespace now than when the poll began: fetch again")
		}
		for _, name := range queues { // a key's roles and scope change too
			if err := tenancy.Allow(who, tenancy.JobWork, tenancy.Where{Namespace: who.Namespace, Queue: name}); err != nil {
				return err
			}
		}
		return nil
	})
}

// keySource finds keys in a store.
type keySource struct{ store *state.Store }

func (k keySource) Key(id string) (tenancy.Key, bool) {
	rec := k.store.Key(id)
	if rec == nil {
		return tenancy.Key{}, false
	}
	return convert.FromKeyRecord(rec), true
}

// markUsed remembers in memory when a key was last used: a log entry for each
// request would cost more than the request. Only keys that exist get here, so
// their bound is that of keys.
func (s *Server) markUsed(id string, nowNs int64) {
	at, ok := s.lastUsed.Load(id)
	if !ok {
		at, _ = s.lastUsed.LoadOrStore(id, new(atomic.Int64))
	}
	at.(*atomic.Int64).Store(nowNs)
}

// lastUsedNs is when a key was last used here, 0 for not since the start.
func (s *Server) lastUsedNs(id string) int64 {
	if at, ok := s.lastUsed.Load(id); ok {
		return at.(*atomic.Int64).Load()
	}
	return 0
}

// forwardingHeaders are set by proxies.
var forwardingHeaders = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Real-Ip", "Via"}

var crossOrigin = http.NewCrossOriginProtection()

// checkDirect lets only requests through that a program on this machine sent
// itself. A node without keys is open to whoever can make somebody else on this
// machine send a request: a proxy for the whole network, or a web page for its
// visitor's browser, under its own name or, by rebinding that name, under ours.
func checkDirect(r *http.Request) error {
	for _, h := range forwardingHeaders {
		if r.Header[h] != nil {
			return api.Errorf(api.Forbidden, "a --dev server refuses forwarded requests (%s is set): start it without --dev to serve others", h)
		}
	}
	if err := crossOrigin.Check(r); err != nil {
		return api.Errorf(api.Forbidden, "a --dev server refuses requests from web pages of other origins")
	}
	if !localName(r.Host) {
		return api.Errorf(api.Forbidden, "a --dev server answers only to localhost and loopback addresses, not to %s", convert.Excerpt(r.Host))
	}
	return nil
}

func localName(hostPort string) bool {
	name := hostPort
	if h, _, err := net.SplitHostPort(hostPort); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	if ip := net.ParseIP(name); ip != nil {
		return ip.IsLoopback()
	}
	return name == "" || name == "localhost" || strings.HasSuffix(name, ".localhost")
}
