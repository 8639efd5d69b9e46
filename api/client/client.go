// Package client is the Go SDK of a Corvo node, of the gateway of the cloud, and of the control plane. Client
// has the methods for the routes of a node, Cloud those for the routes of the cloud API. Stream sends work
// over one connection, and Worker runs handlers. Errors of the server are *api.Error. Calls are retried if a
// repeat can do no harm.
//
// The error for an id or a name that does not exist is NOT_FOUND, and for a role in a request about a key
// VALIDATION_ERROR, unless a method's comment names another. DeleteQueue, RemoveNode, and the deletions of a
// Cloud without a version, may also return NOT_FOUND if the response to an earlier try was lost.
//
// The error is CONFLICT if the maximum number of schedules, keys, roles, resources, namespaces, organisations
// or hosts exists and the call would create another. CONFLICT may also mean that another client created or
// changed the same key, role or resource at the same time; the call then did nothing.
//
// In the cloud the control plane keeps the keys and roles of namespaces: a Client's methods for them get
// UNSUPPORTED, so use those of Cloud.
//
// The package keeps no state besides its connections. Of this module it imports only api and its subpackages,
// billing and, for the form of keys, tenancy/keyring.
package client

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// These constants are the defaults of New.
const (
	// DefaultRetries is the number of retries after the first try of a call.
	DefaultRetries = 3
	// DefaultTimeout limits one try of a call. A call that waits at the server, such as a fetch, gets the
	// time of that wait in addition.
	DefaultTimeout = 30 * time.Second
	// DefaultConnections is the number of idle connections that are kept for each server, so that many
	// goroutines can share a Client without opening connections again and again.
	DefaultConnections = 256
)

// Client calls one endpoint. It is safe for concurrent use, and goroutines should share one.
type Client struct {
	base      string // endpoint without a slash at its end
	key       string
	bearer    string // the value of the Authorization header
	http      *http.Client
	retries   int
	retryTime time.Duration
	timeout   time.Duration
	sleep     sleeper

	keyedWrites bool
	namespace   string
}

// Option configures a Client in New.
type Option func(*Client)

// WithHTTPClient replaces the HTTP client, for proxies, TLS or tracing. Its Timeout should be 0, because
// a fetch waits long and each try has a limit of its own.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// WithRetries sets the number of retries after the first try; default DefaultRetries, 0 = none. Any call that
// the server has refused with status 429 (such as OVERLOADED or RATE_LIMITED), or with api.DetailUnchanged, is
// retried. After another retryable code or a failure of the network the outcome is unknown. Then only calls
// are retried whose repeat has no second effect: reads, most acks, writes with an Idempotency-Key, and writes
// that set a state, such as PauseQueue.
func WithRetries(n int) Option { return func(c *Client) { c.retries = max(n, 0) } }

// WithRetryTime replaces the number of retries for calls that the server refuses with a Retry-After: they are retried
// until d has passed since the first try, and not at all if the server asks for a later time. With 0, the default, the
// number limits these retries too, and a call waits as long as the server asks. Without retries d has no effect.
func WithRetryTime(d time.Duration) Option { return func(c *Client) { c.retryTime = d } }

// WithKeyedWrites gives an Idempotency-Key to each write whose repeat would have a second effect, so that the
// write is also retried if its outcome is unknown. Fetches, heartbeats, AckBatch, CreateKey, RotateKey,
// ClearQueue and TransferLeadership get none. The option is off by default, because a server remembers each
// key for a day and only a limited number of them. A busy producer should give keys only to important writes,
// with WithIdempotencyKey.
func WithKeyedWrites() Option { return func(c *Client) { c.keyedWrites = true } }

// WithNamespace sets the namespace, by id or name, for calls of the data plane with a cloud token.
func WithNamespace(ns string) Option { return func(c *Client) { c.namespace = ns } }

// NamedNamespace returns the argument of WithNamespace, or "".
func (c *Client) NamedNamespace() string { return c.namespace }

// WithTimeout sets the limit of one try; default DefaultTimeout. With 0 or less only the context limits a
// try.
func WithTimeout(d time.Duration) Option { return func(c *Client) { c.timeout = d } }

// New returns a client of an endpoint such as "http://127.0.0.1:8080". apiKey may be empty for a server
// started with --dev. New sends nothing. It refuses an endpoint that is no http or https URL, has a query or
// a fragment, or ends with /api/v1.
func New(endpoint, apiKey string, opts ...Option) (*Client, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, fmt.Errorf("endpoint %q: want a URL like http://127.0.0.1:8080: %w", endpoint, err)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("endpoint %q: want a URL like http://127.0.0.1:8080", endpoint)
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("endpoint %q: a query or fragment has no meaning here", endpoint)
	}
	if path := strings.TrimRight(u.Path, "/"); strings.HasSuffix(path, "/api/v1") {
		return nil, fmt.Errorf("endpoint %q: leave %q away, it is part of each call", endpoint, "/api/v1")
	}
	c := &Client{
		base:    strings.TrimRight(u.String(), "/"),
		key:     apiKey,
		bearer:  "Bearer " + apiKey,
		retries: DefaultRetries,
		timeout: DefaultTimeout,
		sleep:   sleep,
	}
	for _, o := range opts {
		o(c)
	}
	if c.http == nil {
		c.http = &http.Client{Transport: newTransport()}
	}
	return c, nil
}

// newTransport returns a transport that keeps connections for many goroutines. It does not compress
// responses, because on fast networks that costs more than it saves.
func newTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns = 0
	t.MaxIdleConnsPerHost = DefaultConnections
	t.DisableCompression = true
	return t
}

// Close closes idle connections. Running calls continue.
func (c *Client) Close() { c.http.CloseIdleConnections() }
