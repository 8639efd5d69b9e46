// Package client is the Go SDK of a Corvo node and of the cloud's gateway: one
// method per route, errors as *api.Error, retries where a repeat cannot do
// harm. It keeps no state besides its connections and imports only api
// and, for the form of keys, tenancy/keyring.
package client

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// The defaults of New.
const (
	// DefaultRetries is how often a call is repeated after its first try.
	DefaultRetries = 3
	// DefaultTimeout bounds one try of a call; a fetch adds the time it waits.
	DefaultTimeout = 30 * time.Second
	// DefaultConnections is how many idle connections are kept, so that as many
	// goroutines share one Client without opening connections again and again.
	DefaultConnections = 256
)

// Client talks to one endpoint. It is safe for any number of goroutines, which
// should share one.
type Client struct {
	base    string // endpoint without a slash at its end
	key     string
	bearer  string // the key as a header says it
	http    *http.Client
	retries int
	timeout time.Duration
	sleep   sleeper

	keyedWrites bool
	namespace   string
}

// Option changes what New makes.
type Option func(*Client)

// WithHTTPClient replaces the HTTP client, for proxies, TLS or tracing. Its
// Timeout should be 0: a fetch waits long, and each try has a limit of its own.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// WithRetries sets how often a call is repeated after its first try; 0 never
// repeats. What the server says it has refused is always worth a repeat. Where
// the outcome is not known, only calls are repeated that do nothing twice: reads,
// acks, and writes that carry an Idempotency-Key.
func WithRetries(n int) Option { return func(c *Client) { c.retries = max(n, 0) } }

// WithKeyedWrites gives every write that a repeat would do twice an
// Idempotency-Key of its own, so that it is repeated also when its outcome is not
// known. It is not the default because a server remembers each key for a day, and
// only so many: a busy producer should key the writes that matter, with
// WithIdempotencyKey.
func WithKeyedWrites() Option { return func(c *Client) { c.keyedWrites = true } }

// WithNamespace lets a cloud token speak to the data plane of one of its
// organisation's namespaces, by id or name.
func WithNamespace(ns string) Option { return func(c *Client) { c.namespace = ns } }

// NamedNamespace returns what WithNamespace was given; "" = nothing.
func (c *Client) NamedNamespace() string { return c.namespace }

// WithTimeout sets the limit of one try; 0 or less means none but the
// context's.
func WithTimeout(d time.Duration) Option { return func(c *Client) { c.timeout = d } }

// New makes a client of an endpoint such as "http://127.0.0.1:8080". The key
// may be empty for a server that is open. Only a malformed endpoint is an error;
// nothing is sent.
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

// newTransport keeps connections for many goroutines. Answers are not
// compressed: on the networks queues live in that costs more than it saves.
func newTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns = 0
	t.MaxIdleConnsPerHost = DefaultConnections
	t.DisableCompression = true
	return t
}

// Close closes idle connections. Calls under way go on.
func (c *Client) Close() { c.http.CloseIdleConnections() }
