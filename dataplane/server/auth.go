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

// authenticate returns the sender of a new request, after it has applied the rate limits.
func (s *Server) authenticate(r *http.Request) (tenancy.Principal, error) {
	if s.cfg.Dev || s.cloud() || !s.limits.Any() {
		who, _, err := s.identify(r)
		return who, err
	}
	var who tenancy.Principal
	err := s.limits.Admit(r, s.cfg.Now(), func() (*ratelimit.Bucket, error) {
		var use *keyUse
		var err error
		if who, use, err = s.identify(r); err != nil {
			return nil, err
		}
		return &use.rate, nil
	})
	return who, err
}

// stays says who it is, now, that began a stream or a poll, and whether they still may do
// in the namespace, and in all of the queues, what that takes: a key may be revoked, run
// out, and change.
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

// judgeAgain gives a request the rights that its key has now, of all that any node has
// acknowledged. A body may take long, and the key be revoked meanwhile: of what it does then
// nothing lasts but rights, which would outlive it.
func (s *Server) judgeAgain(r *http.Request, q *request) error {
	if err := s.awaitPresent(r, q, q.shards.Home()); err != nil {
		return err
	}
	// The version first: rights that change after this look are refused with their op.
	if rec := q.shards.Home().State().Key(q.who.KeyID); rec != nil {
		q.judged = op.KeyVersion(rec)
	}
	who, err := s.stays(r, q.who, tenancy.KeyManage)
	q.who = who
	return err
}

// identify returns the sender of a request, when it begins and again while it goes on. Only
// identify and the Authenticator make a principal, and with it a namespace.
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

// How a key is waited for that this node has never heard of.
const (
	// DefaultNewKeyWait bounds the wait: a follower has what its leader has within
	// milliseconds, if it is in contact at all.
	DefaultNewKeyWait = time.Second
	// maxNewKeys bounds the requests that wait so at once; one too many is refused
	// with LEADER_UNAVAILABLE.
	maxNewKeys = 64
	// newKeyRetry is told to a client whose key could not be judged.
	newKeyRetry = time.Second
)

// lacksKeys says whether this node may lack a key that another node has answered the
// creation of. The leader lacks nothing, and no key has a text of another form.
func lacksKeys(home *cell.Cell, text string) bool {
	kind, _, ok := keyring.Parse(text)
	return ok && kind == keyring.Namespace && !home.Leader()
}

// awaitKeys waits until this node has all that was done to keys before the request
// came: a key works at every node as soon as one has answered its creation. If the
// wait fails it is not known whether the key is good, and the client is told so: a
// worker that is told that its key is wrong gives up. Strangers, who can make a node
// wait, cost it one question to the leader for all of them together.
func (s *Server) awaitKeys(ctx context.Context, home *cell.Cell) error {
	if !s.newKeys.take(1) {
		return keyUnjudged(fmt.Errorf("%d requests wait for the leader's keys already", maxNewKeys))
	}
	defer s.newKeys.give(1)
	ctx, cancel := context.WithTimeout(ctx, s.cfg.NewKeyWait)
	defer cancel()
	if err := home.Verify(ctx); err != nil {
		return keyUnjudged(err)
	}
	return nil
}

// keyUnjudged refuses a request whose key this node does not know while it may not
// have all keys.
func keyUnjudged(why error) error {
	e := api.Wrap(why, api.LeaderUnavailable, "this node does not know the key, and could not ask the leader for the newest ones: nothing was done, try again")
	e.RetryAfter = newKeyRetry
	return e
}

// park waits for work, as host.Park does. A poll whose key is revoked meanwhile
// ends at once, not when there is work.
func (s *Server) park(ctx context.Context, r *http.Request, q *request, queues []string) error {
	return s.cfg.Host.Park(ctx, q.who.Namespace, queues, func() error {
		_, err := s.stays(r, q.who, tenancy.JobWork, queues...)
		return err
	})
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
