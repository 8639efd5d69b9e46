// Package ratelimit limits how many requests a second a server accepts: with one API key, from
// one address, and from one address with failed authentication. It also finds the address of
// a client behind trusted proxies.
package ratelimit

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/corvo/corvo/api"
)

// Limits are the rate limits of one server; 0 = no limit. Servers do not share them: a client
// that calls three servers may send three times as many requests.
type Limits struct {
	PerKey     int64 // requests a second with one key
	PerAddress int64 // requests a second from one address
	// Failures is the number of requests a second from one address that may fail to
	// authenticate. Further failures are refused with RATE_LIMITED, and the audit log does
	// not record each of them.
	Failures int64
	// Proxies are the networks of proxies whose forwarding headers are trusted.
	Proxies []netip.Prefix
}

// The largest Limits.
const (
	MaxRate    = 1_000_000 // requests a second
	MaxProxies = 64        // networks of proxies

	// failuresBurst is the burst of failures, in halves of the limit Failures, so that each worker of a fleet
	// that starts with a revoked key learns that its key is wrong. Failures = 2 allows a burst of 5.
	failuresBurst = 5
)

// Check returns an error if a limit is out of range.
func (l *Limits) Check() error {
	for name, n := range map[string]int64{"PerKey": l.PerKey, "PerAddress": l.PerAddress, "Failures": l.Failures} {
		if n < 0 || n > MaxRate {
			return fmt.Errorf("ratelimit: %s of %d a second: it lies between 0, for no limit, and %d", name, n, MaxRate)
		}
	}
	if len(l.Proxies) > MaxProxies {
		return fmt.Errorf("ratelimit: %d proxies: at most %d", len(l.Proxies), MaxProxies)
	}
	return nil
}

// Limiter applies Limits to requests. The zero Limiter has no limits and trusts no proxy.
type Limiter struct {
	perKey     rate
	perAddress *addressBuckets // nil = no limit
	failures   *addressBuckets // nil = no limit
	proxies    []netip.Prefix
}

// New returns a Limiter that applies l. l must have passed Check, and the Limiter keeps l.Proxies.
func New(l Limits) Limiter {
	return Limiter{
		perKey:     perSecond(l.PerKey, l.PerKey),
		perAddress: newAddressBuckets(perSecond(l.PerAddress, l.PerAddress)),
		failures:   newAddressBuckets(perSecond(l.Failures, failuresBurst*l.Failures/2)),
		proxies:    l.Proxies,
	}
}

// Any reports whether there is a limit on requests or failures.
func (l *Limiter) Any() bool {
	return l.perKey.every != 0 || l.perAddress != nil || l.failures != nil
}

// Admit returns RATE_LIMITED for a request above the limits, or else the error of `find`. It calls `find` to
// authenticate the request and to return the bucket of its key, which may be nil if keys have no limit. If
// `find` returns UNAUTHORIZED, Admit counts a failure. It does so only after `find` has checked the key, so
// that failures from an address never lock out a valid key from there.
func (l *Limiter) Admit(r *http.Request, now time.Time, find func() (*Bucket, error)) error {
	from := l.ClientAddress(r)
	if err := l.AllowAddress(from, now); err != nil {
		return err
	}
	key, err := find()
	switch {
	case api.CodeOf(err) == api.Unauthorized:
		return cmp.Or(l.AllowFailure(from, now), err)
	case err != nil:
		return err
	}
	return l.allowKey(key, now)
}

// AllowAddress counts a request, and returns an error if the address has sent too many.
func (l *Limiter) AllowAddress(from netip.Addr, now time.Time) error {
	return tooFast("from this address", l.perAddress.take(from, now.UnixNano()))
}

// AllowFailure counts a failed authentication, and returns an error if the address had too many.
func (l *Limiter) AllowFailure(from netip.Addr, now time.Time) error {
	return tooFast("without a valid API key from this address", l.failures.take(from, now.UnixNano()))
}

// allowKey counts a request with the key, and returns an error if there were too many.
func (l *Limiter) allowKey(key *Bucket, now time.Time) error {
	if l.perKey.every == 0 {
		return nil
	}
	return tooFast("with this API key", key.take(l.perKey, now.UnixNano()))
}

// Reserve counts a piece of work that can wait, such as a frame of a stream, as one request. It returns how
// long the caller must let the work wait to keep the limits. key may be nil: only the address then counts.
func (l *Limiter) Reserve(key *Bucket, from netip.Addr, now time.Time) (wait time.Duration) {
	if l.perAddress != nil {
		wait = l.perAddress.reserve(from, now.UnixNano())
	}
	if l.perKey.every != 0 && key != nil {
		wait = max(wait, key.reserve(l.perKey, now.UnixNano()))
	}
	return wait
}

func tooFast(which string, wait time.Duration) error {
	if wait == 0 {
		return nil
	}
	e := api.Errorf(api.RateLimited, "too many requests a second %s: wait for the time in Retry-After", which)
	e.RetryAfter = wait
	return e
}
