package fleet

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/tenancy/keyring"
	"github.com/corvo/corvo/tenancy/token"
)

// These constants are the times of a member. Those of the protocol are in wire.go.
const (
	CallTimeout = 10 * time.Second       // for one call to the control plane, streams excepted
	firstWait   = 100 * time.Millisecond // the longest wait before the second try; it doubles
	mostWait    = 5 * time.Second        // the longest wait between tries
	leastRenew  = time.Second            // the shortest wait until a token is renewed, however short its life
)

// MemberConfig identifies a member and its control plane. ControlPlane and Credential are required.
type MemberConfig struct {
	// ControlPlane is the base URL of the control plane, or those of its processes, separated by commas: see
	// ParseEndpoints. With a Certificate each must be https. The member turns to the next process when the
	// present one is away or reaches no leader.
	ControlPlane string
	Credential   string      // of a host or gateway; sent only to JoinPath
	Join         JoinRequest // the member sets Run, CSR and Format
	// Trusted are the keys to trust until the control plane has sent its keys: those of a Catalogue, or none.
	Trusted token.Set
	// Certificate holds the member's certificate for TLS to the control plane. Each join renews it if that is
	// due. nil = the member has none: it speaks plain HTTP, or verifies an https URL by the roots of the
	// system.
	Certificate *certificate.Holder
	// Last is the session of an earlier run; zero = none. The member uses its id and host token until the
	// first join, and its LastHeartbeat until the first heartbeat.
	Last Session

	HTTP   *http.Client     // nil = a client of the member's own; the Timeout of a given one is ignored
	Now    func() time.Time // nil = time.Now
	Logger *slog.Logger     // nil = slog.Default()
}

// Member is a host's or gateway's connection to the control plane. It renews a service token, follows the
// stream of documents and delivers reports and usage. It is safe for concurrent use.
type Member struct {
	config    MemberConfig
	endpoints *Endpoints
	http      *http.Client
	joining   *http.Client // for joins, in which the member shows no certificate
	log       *slog.Logger

	running       atomic.Bool
	session       atomic.Pointer[session]
	trusted       atomic.Pointer[token.Set]
	number        atomic.Int64
	connected     atomic.Bool
	lastHeartbeat atomic.Int64 // Unix nanoseconds; 0 = never
	pulse         pulse
	rejoin        chan struct{} // has an element after the control plane has refused the token
	fence         fence
	renewal       condition // of the certificate; used under roots
	roots         roots
}

// session is the result of the last join. Before the first join it comes from MemberConfig.Last.
type session struct {
	id, token, hostToken string
	run                  int64     // of this process; 0 = it has not joined, or has no store
	ends                 time.Time // hosts refuse hostToken from this time on
}

// CheckCredential checks the form of the credential of a host or gateway.
func CheckCredential(text string) error {
	if kind, _, _ := keyring.Parse(text); kind != keyring.Host && kind != keyring.Gateway {
		return errors.New("the fleet credential is none: it begins with cv_host_ or cv_gw_ and must be copied whole")
	}
	return nil
}

// NewMember checks the configuration. It does not connect.
func NewMember(c MemberConfig) (*Member, error) {
	var faults []error
	endpoints, err := ParseEndpoints(c.ControlPlane)
	if err == nil && c.Certificate != nil {
		err = endpoints.checkTLS()
	}
	faults = append(faults, err, CheckCredential(c.Credential))
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	m := &Member{config: c, endpoints: endpoints, log: c.Logger, rejoin: make(chan struct{}, 1), fence: fence{down: make(chan struct{})}}
	switch {
	case c.HTTP != nil:
		untimed := *c.HTTP
		untimed.Timeout = 0 // it would cut the stream off; calls have a limit of their own
		m.http, m.joining = &untimed, &untimed
	case c.Certificate != nil:
		m.http = &http.Client{Transport: newTransport(ControlPlaneClient(c.Certificate))}
		m.joining = &http.Client{Transport: newTransport(joinClient(c.Certificate))}
	default:
		m.http = &http.Client{Transport: newTransport(nil)}
		m.joining = m.http
	}
	if m.config.Now == nil {
		m.config.Now = time.Now
	}
	if m.log == nil {
		m.log = slog.Default()
	}
	m.renewal = condition{
		log: m.log, down: "the certificate cannot be replaced; the present one stays in use and the next join tries again", up: "the certificate is kept",
	}
	m.session.Store(&session{id: c.Last.ID, hostToken: c.Last.HostToken, ends: c.Last.Ends})
	if !c.Last.LastHeartbeat.IsZero() {
		m.lastHeartbeat.Store(c.Last.LastHeartbeat.UnixNano())
	}
	m.trusted.Store(&c.Trusted)
	return m, nil
}

// Close closes idle connections, as Run does at its end. Calls still work, on new connections.
func (m *Member) Close() {
	m.http.CloseIdleConnections()
	m.joining.CloseIdleConnections()
}

// newTransport returns a transport for the control plane; secure is nil for plain HTTP.
func newTransport(secure *tls.Config) *http.Transport {
	return &http.Transport{
		TLSClientConfig:       secure,
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: CallTimeout}).DialContext,
		TLSHandshakeTimeout:   CallTimeout,
		ResponseHeaderTimeout: CallTimeout,
		IdleConnTimeout:       time.Minute,
		ForceAttemptHTTP2:     true,
	}
}

// Endpoints returns the processes of the control plane, for other requests of this process.
func (m *Member) Endpoints() *Endpoints { return m.endpoints }

// ID returns the id that the control plane gave the member. Before the first join it is that of
// MemberConfig.Last, or "".
func (m *Member) ID() string { return m.session.Load().id }

// Token returns the service token for the control plane; "" before the first join.
func (m *Member) Token() string { return m.session.Load().token }

// HostToken returns the service token that a gateway sends to hosts. It is "" for a host, and before the
// first join unless MemberConfig.Last has one. It is also "" after the token's end. While the stream of
// documents is down, that end is token.Outage later, because hosts that are cut off as well accept the token
// until then.
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

// Trusted returns the keys that verify the control plane's signatures.
func (m *Member) Trusted() token.Set { return *m.trusted.Load() }

// Connected reports whether the stream of documents is open and alive.
func (m *Member) Connected() bool { return m.connected.Load() }

// LastHeartbeat returns the time of the last heartbeat. At that time the member had every document. If this
// run had no heartbeat, the result is that of MemberConfig.Last, or the zero time.
func (m *Member) LastHeartbeat() time.Time {
	ns := m.lastHeartbeat.Load()
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// Number returns the number up to which the member has handled every document.
func (m *Member) Number() int64 { return m.number.Load() }

// keepJoined joins, and joins again after half of each token's life or after a refusal of the token, until
// ctx ends. It closes joined at the first success.
func (m *Member) keepJoined(ctx context.Context, joined chan<- struct{}) {
	tries := backoff{}
	status := condition{log: m.log, down: "the member has not joined the control plane yet, and tries again", up: "the member joined the control plane"}
	for ctx.Err() == nil {
		renew, err := m.join(ctx)
		if ctx.Err() != nil {
			return
		}
		status.note(err)
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
			// Without a wait, a token that is always refused would be fetched in a loop.
			tries.wait(ctx, nil)
		}
		timer.Stop()
	}
}

// join gets a token and returns the time until the next join.
func (m *Member) join(ctx context.Context) (renew time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	var a JoinAnswer
	request := m.config.Join
	request.Run, request.Format = m.session.Load().run, DocFormat
	before, err := m.askForCertificate(&request)
	if err != nil {
		return 0, err
	}
	if err := m.send(ctx, http.MethodPost, JoinPath, m.config.Credential, request, &a); err != nil {
		m.fence.check(err)
		return 0, err
	}
	if a.ID == "" || a.Token == "" {
		return 0, errors.New("the control plane's answer to a join has no id or no token")
	}
	set, err := token.ParseSet(a.JWKS)
	if err != nil {
		return 0, fmt.Errorf("the control plane's answer to a join: %w", err)
	}
	news, err := m.takeCertificate(request, a, before)
	if err != nil {
		return 0, err
	}
	// An open stream delivers the keys in order, and this response may be older.
	if !m.Connected() {
		m.trusted.Store(&set)
	}
	m.session.Store(&session{id: a.ID, token: a.Token, hostToken: a.HostToken, run: a.Run, ends: a.ExpiresAt.Add(token.Leeway)})
	if news {
		m.refused(a.Token) // to report them
	}
	half := a.ExpiresAt.Sub(m.config.Now()) / 2
	return min(max(half, leastRenew), token.Lifetime/2), nil
}

// refused requests a new join after the control plane refused a token. It ignores a token that was
// replaced already.
func (m *Member) refused(token string) {
	if token != m.Token() {
		return
	}
	select {
	case m.rejoin <- struct{}{}:
	default:
	}
}

// refetch fetches the keys that verify the control plane's signatures now.
func (m *Member) refetch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	var raw json.RawMessage
	if err := m.send(ctx, http.MethodGet, JWKSPath, "", nil, &raw); err != nil {
		return fmt.Errorf("fetch the control plane's keys: %w", err)
	}
	return m.trust(raw)
}

// trust replaces the trusted keys by those of the control plane.
func (m *Member) trust(jwks []byte) error {
	set, err := token.ParseSet(jwks)
	if err != nil {
		return fmt.Errorf("the control plane's keys: %w", err)
	}
	m.trusted.Store(&set)
	return nil
}

// condition logs the first result of an operation, and later each change of it: a failure, another error, or
// success again.
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
