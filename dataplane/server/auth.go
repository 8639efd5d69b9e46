package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/serve/ratelimit"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/router"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// authenticate returns the sender of a new request. A node with keys of its own also applies its rate limits,
// and answers RATE_LIMITED above them. It applies the limit of the client's address before it looks at the
// key. Afterwards it applies the limit of failures to a wrong key, or the key's own limit.
func (s *Server) authenticate(r *http.Request) (tenancy.Principal, error) {
	if s.cfg.Dev || s.cloud() || !s.limits.Any() {
		who, _, err := s.identify(r)
		return who, err
	}
	var who tenancy.Principal
	err := s.limits.Admit(r, s.cfg.Now(), func() (ratelimit.Buckets, error) {
		var use *keyUse
		var err error
		if who, use, err = s.identify(r); err != nil {
			return ratelimit.Buckets{}, err
		}
		return ratelimit.Buckets{Key: &use.rate}, nil
	})
	return who, err
}

// stays authenticates a request again, while its stream, poll or change of keys runs, and checks that the
// principal still has a permission in the namespace and in every given queue. Its callers repeat the check
// because a key may be revoked, expire or change.
func (s *Server) stays(r *http.Request, begun tenancy.Principal, what tenancy.Permission, queues ...string) (tenancy.Principal, error) {
	who, _, err := s.identify(r)
	if err != nil {
		return who, err
	}
	if who.Namespace != begun.Namespace {
		return who, api.Errorf(api.Unauthorized, "the key opens another namespace now than when this began: begin again")
	}
	for _, name := range queues {
		if err := tenancy.Allow(who, what, tenancy.Where{Namespace: who.Namespace, Queue: name}); err != nil {
			return who, err
		}
	}
	return who, tenancy.Allow(who, what, tenancy.Where{Namespace: who.Namespace})
}

// authoriseAgain replaces a request's rights by those that its key has now. It first waits until this node
// has every change that any node acknowledged before. A long body may arrive after its key was revoked.
// Requests that grant rights need this second check, because the rights they grant would outlast the revoked
// key.
func (s *Server) authoriseAgain(r *http.Request, q *request) error {
	if err := s.awaitPresent(r, q, q.shards.Home()); err != nil {
		return err
	}
	// Read the version before the rights: if the rights change after this read, the op is refused by the
	// version.
	if rec := q.shards.Home().State().Key(q.who.KeyID); rec != nil {
		q.callerVersion = op.KeyVersion(rec)
	}
	who, err := s.stays(r, q.who, tenancy.KeyManage)
	q.who = who
	return err
}

// identify returns the sender of a request, both when the request begins and again while it runs. The keyUse
// is nil with Dev or Authenticator. Only identify and the Authenticator make a principal, and so decide in
// which namespace a request works.
func (s *Server) identify(r *http.Request) (tenancy.Principal, *keyUse, error) {
	nobody := tenancy.Principal{}
	if s.cfg.Dev {
		if err := checkDirect(r); err != nil {
			return nobody, nil, err
		}
		return tenancy.Principal{Namespace: s.cfg.Namespace, Name: "dev", Open: true}, nil, nil
	}
	if s.cloud() {
		who, err := s.cfg.Authenticator.Authenticate(r)
		if err == nil {
			s.cfg.Authenticator.Used(who.KeyID, s.cfg.Now())
		}
		return who, nil, err
	}
	text := serve.Credential(r)
	shards, err := router.Open(s.cfg.Host, s.cfg.Namespace)
	if err != nil {
		return nobody, nil, err
	}
	now := s.cfg.Now()
	keys := keySource{s, shards.Home().State()}
	key, err := keyring.Verify(keys, text, now, keyring.Namespace)
	if err != nil && lacksKeys(shards.Home(), text) {
		if err := s.awaitKeys(r.Context(), shards.Home()); err != nil {
			return nobody, nil, err
		}
		key, err = keyring.Verify(keys, text, now, keyring.Namespace)
	}
	if err != nil {
		return nobody, nil, err
	}
	use := s.keyUses.of(key.ID)
	use.used(now)
	return key.Principal(s.cfg.Namespace), use, nil
}

// Bounds of the wait for a key that this node does not know yet.
const (
	// DefaultNewKeyWait is the default of Config.NewKeyWait. A follower that is in contact with its leader
	// receives the leader's writes within milliseconds.
	DefaultNewKeyWait = time.Second
	// maxNewKeys is the maximum number of requests that wait at the same time. The next one is refused with
	// LEADER_UNAVAILABLE.
	maxNewKeys = 64
	// newKeyRetry is the Retry-After of the answer to a client whose key could not be checked.
	newKeyRetry = time.Second
)

// lacksKeys reports whether this node may lack a key whose creation another node has answered. It assumes
// that a leader lacks none. A text without the form of a namespace's key is no key on any node.
func lacksKeys(home *cell.Cell, text string) bool {
	kind, _, ok := keyring.Parse(text)
	return ok && kind == keyring.Namespace && !home.Leader()
}

// awaitKeys waits until this node has every change of keys that was acknowledged before the call, because a
// key must work at every node as soon as one node has answered its creation. If the wait fails, this node
// cannot tell whether the key is valid. The answer says so, because a worker that is told that its key is
// wrong gives up. Clients with unknown keys can make a node ask its leader, but requests that wait at the
// same time share one question.
func (s *Server) awaitKeys(ctx context.Context, home *cell.Cell) error {
	if !s.newKeys.take(1) {
		return keyNotKnownYet(fmt.Errorf("%d requests wait for the leader's keys already", maxNewKeys))
	}
	defer s.newKeys.give(1)
	ctx, cancel := context.WithTimeout(ctx, s.cfg.NewKeyWait)
	defer cancel()
	if err := home.Verify(ctx); err != nil {
		return keyNotKnownYet(err)
	}
	return nil
}

// keyNotKnownYet builds the refusal of a request whose key this node cannot check, because it may lack keys.
func keyNotKnownYet(why error) error {
	e := api.Wrap(why, api.LeaderUnavailable, "this node does not know the key, and could not ask the leader for the newest ones: nothing was done, try again")
	e.RetryAfter = newKeyRetry
	return e
}

// park waits for work, as host.Park does. If the poll's key is revoked in the meantime, the poll ends when
// this node learns of the revocation, even if no work arrives.
func (s *Server) park(ctx context.Context, r *http.Request, q *request, queues []string) error {
	return s.cfg.Host.Park(ctx, q.who.Namespace, queues, func() error {
		_, err := s.stays(r, q.who, tenancy.JobWork, queues...)
		return err
	})
}

// forwardingHeaders are the headers that checkDirect takes as the sign of a proxy.
var forwardingHeaders = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Real-Ip", "Via"}

var crossOrigin = http.NewCrossOriginProtection()

// checkDirect refuses requests that do not seem to come directly from a program on this machine: those with a
// proxy's header, from a web page of another origin, or with a Host that does not name this machine. Without
// it, a node without keys would be open to everybody who can make a process on this machine send a request. A
// proxy could forward requests from the whole network. A web page could use its visitor's browser, also under
// a name that DNS rebinding points to this machine.
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
		return api.Errorf(api.Forbidden, "a --dev server answers only to localhost and loopback addresses, not to %s", text.Quote(r.Host))
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
