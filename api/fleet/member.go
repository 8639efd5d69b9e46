package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/tenancy/keyring"
	"github.com/corvo/corvo/tenancy/token"
)

// The times of a member, apart from those of the contract.
const (
	CallTimeout = 10 * time.Second       // for one call to the control plane, streams apart
	firstWait   = 100 * time.Millisecond // before trying again; doubles
	mostWait    = 5 * time.Second        // to this
	leastRenew  = time.Second            // between two joins, however short a token lives
)

// MemberConfig says who joins what.
type MemberConfig struct {
	ControlPlane string // base URL
	Credential   string // of a host or gateway; it goes nowhere but to JoinPath
	Join         JoinRequest
	// Trusted is believed until the control plane has said what is: what a
	// Catalogue kept, or nothing.
	Trusted token.Set
	// Last is the session of an earlier run; its host token is shown until the
	// control plane has given another.
	Last Session

	HTTP   *http.Client     // nil = one of its own; a Timeout is not used
	Now    func() time.Time // nil = time.Now
	Logger *slog.Logger     // nil = slog.Default()
}

// Member is a host or gateway as the control plane knows it: it keeps a service
// token fresh, follows the stream of documents and carries reports and usage. Its
// methods may be called by any goroutine.
type Member struct {
	config MemberConfig
	base   string
	http   *http.Client
	log    *slog.Logger

	running   atomic.Bool
	session   atomic.Pointer[session]
	trusted   atomic.Pointer[token.Set]
	number    atomic.Int64
	connected atomic.Bool
	heard     atomic.Int64 // Unix nanoseconds of the last heartbeat; 0 = never
	pulse     pulse
	rejoin    chan struct{} // holds one: the token was refused
}

// session is what the last join gave.
type session struct {
	id, token, hostToken string
	ends                 time.Time // of hostToken, at hosts too
}

// CheckCredential says what is wrong with a text that is to be the credential of a host or
// a gateway, as far as the text tells.
func CheckCredential(text string) error {
	if kind, _, _ := keyring.Parse(text); kind != keyring.Host && kind != keyring.Gateway {
		return errors.New("the fleet credential is none: it begins with cv_host_ or cv_gw_ and must be copied whole")
	}
	return nil
}

// NewMember checks the configuration; it connects to nothing.
func NewMember(c MemberConfig) (*Member, error) {
	var faults []error
	u, err := url.Parse(c.ControlPlane)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" {
		faults = append(faults, fmt.Errorf("control plane %q is not a URL such as https://cloud.example.com", c.ControlPlane))
	}
	faults = append(faults, CheckCredential(c.Credential))
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	m := &Member{config: c, base: strings.TrimRight(c.ControlPlane, "/"), log: c.Logger, rejoin: make(chan struct{}, 1)}
	m.http = &http.Client{Transport: newTransport()}
	if c.HTTP != nil {
		untimed := *c.HTTP
		untimed.Timeout = 0 // it would cut the stream; calls have a limit of their own
		m.http = &untimed
	}
	if m.config.Now == nil {
		m.config.Now = time.Now
	}
	if m.log == nil {
		m.log = slog.Default()
	}
	m.session.Store(&session{id: c.Last.ID, hostToken: c.Last.HostToken, ends: c.Last.Ends})
	if !c.Last.Heard.IsZero() {
		m.heard.Store(c.Last.Heard.UnixNano())
	}
	m.trusted.Store(&c.Trusted)
	return m, nil
}

// Close lets go of idle connections; Run's end does so too. Calls still work, on new
// ones.
func (m *Member) Close() { m.http.CloseIdleConnections() }

func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: CallTimeout}).DialContext,
		TLSHandshakeTimeout:   CallTimeout,
		ResponseHeaderTimeout: CallTimeout,
		IdleConnTimeout:       time.Minute,
		ForceAttemptHTTP2:     true,
	}
}

// ID is the member's, as the control plane calls it; "" before the first join.
func (m *Member) ID() string { return m.session.Load().id }

// Token is the member's service token for the control plane; "" before the first
// join.
func (m *Member) Token() string { return m.session.Load().token }

// HostToken is the service token that a gateway shows to hosts; "" before the first
// join, for a host, and when no host would take it any more. While the control
// plane is away, hosts that are cut off like the gateway take the last one.
func (m *Member) HostToken() string {
	s := m.session.Load()
	ends := s.ends
	if !m.Connected() {
		ends = ends.Add(token.Outage)
	}
	if !m.config.Now().Before(ends) {
		return ""
	}
	return s.hostToken
}

// Trusted are the keys the control plane signs with.
func (m *Member) Trusted() token.Set { return *m.trusted.Load() }

// Connected says whether the stream of documents is open and alive.
func (m *Member) Connected() bool { return m.connected.Load() }

// Heard says when the control plane last had no document left to send: what is
// known was all there was. The zero time = never, in this run or the one of Last.
func (m *Member) Heard() time.Time {
	ns := m.heard.Load()
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// Number is that of the newest document that was handled.
func (m *Member) Number() int64 { return m.number.Load() }

// keepJoined joins, and joins again at half of each token's life or when it is
// refused, until ctx ends. joined is closed at the first success.
func (m *Member) keepJoined(ctx context.Context, joined chan<- struct{}) {
	tries := backoff{}
	heard := condition{log: m.log, down: "the control plane does not let this member join: trying on", up: "joined the control plane"}
	for ctx.Err() == nil {
		renew, err := m.join(ctx)
		if ctx.Err() != nil {
			return
		}
		heard.note(err)
		if err != nil {
			tries.wait(ctx, nil)
			continue
		}
		tries.reset()
		if joined != nil {
			close(joined)
			joined = nil
		}
		timer := time.NewTimer(renew)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-m.rejoin:
			// A token refused at once would be fetched in a loop.
			tries.wait(ctx, nil)
		}
		timer.Stop()
	}
}

// join gets a token and says when to get the next.
func (m *Member) join(ctx context.Context) (renew time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	var a JoinAnswer
	if err := m.send(ctx, http.MethodPost, JoinPath, m.config.Credential, m.config.Join, &a); err != nil {
		return 0, err
	}
	if a.ID == "" || a.Token == "" {
		return 0, errors.New("the control plane's answer to a join has no id or no token")
	}
	set, err := token.ParseSet(a.JWKS)
	if err != nil {
		return 0, fmt.Errorf("the control plane's answer to a join: %w", err)
	}
	// While the stream is open it says in order what the keys are, and this answer
	// may be older.
	if !m.Connected() {
		m.trusted.Store(&set)
	}
	m.session.Store(&session{id: a.ID, token: a.Token, hostToken: a.HostToken, ends: a.ExpiresAt.Add(token.Leeway)})
	half := a.ExpiresAt.Sub(m.config.Now()) / 2
	return min(max(half, leastRenew), token.Lifetime/2), nil
}

// refused notes that the control plane did not take a token; an old one is no news.
func (m *Member) refused(token string) {
	if token != m.Token() {
		return
	}
	select {
	case m.rejoin <- struct{}{}:
	default:
	}
}

// refetch gets the keys the control plane signs with now.
func (m *Member) refetch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	var raw json.RawMessage
	if err := m.send(ctx, http.MethodGet, JWKSPath, "", nil, &raw); err != nil {
		return fmt.Errorf("fetch the control plane's keys: %w", err)
	}
	return m.trust(raw)
}

// trust takes what the control plane says are its keys.
func (m *Member) trust(jwks []byte) error {
	set, err := token.ParseSet(jwks)
	if err != nil {
		return fmt.Errorf("the control plane's keys: %w", err)
	}
	m.trusted.Store(&set)
	return nil
}

// condition logs that something has ceased to work, or works again, once each.
type condition struct {
	log      *slog.Logger
	down, up string
	known    bool
	last     string // text of the last error; "" while it works
}

func (c *condition) note(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if c.known && text == c.last {
		return
	}
	if err != nil {
		c.log.Warn(c.down, "error", err)
	} else {
		c.log.Info(c.up)
	}
	c.known, c.last = true, text
}
