// Package ratelimit limits how many requests a second a server accepts: with one API key, in one namespace or
// organisation, from one address, and from one address with failed authentication. It also finds the address of
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
	PerKey       int64 // requests a second with one key
	PerNamespace int64 // requests a second in one namespace
	PerOrg       int64 // requests a second in all namespaces of one organisation
	PerAddress   int64 // requests a second from one address
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
	for name, n := range map[string]int64{
		"PerKey": l.PerKey, "PerNamespace": l.PerNamespace, "PerOrg": l.PerOrg, "PerAddress": l.PerAddress, "Failures": l.Failures,
	} {
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
	perKey       rate
	perNamespace rate
	perOrg       rate
	perAddress   *addressBuckets // nil = no limit
	failures     *addressBuckets // nil = no limit
	proxies      []netip.Prefix
}

// Buckets are those of an authenticated request. A nil one does not count.
type Buckets struct{ Key, Namespace, Org *Bucket }

// New returns a Limiter that applies l. l must have passed Check, and the Limiter keeps l.Proxies.
func New(l Limits) Limiter {
	return Limiter{
		perKey:       perSecond(l.PerKey, l.PerKey),
		perNamespace: perSecond(l.PerNamespace, l.PerNamespace),
		perOrg:       perSecond(l.PerOrg, l.PerOrg),
		perAddress:   newAddressBuckets(perSecond(l.PerAddress, l.PerAddress)),
		failures:     newAddressBuckets(perSecond(l.Failures, failuresBurst*l.Failures/2)),
		proxies:      l.Proxies,
	}
}

// Any reports whether there is a limit on requests or failures.
func (l *Limiter) Any() bool {
	return l.perKey.every != 0 || l.perNamespace.every != 0 || l.perOrg.every != 0 || l.perAddress != nil || l.failures != nil
}

// Admit returns RATE_LIMITED for a request above the limits, or else the error of `find`. It calls `find` to
// authenticate the request and to return its buckets. If `find` returns UNAUTHORIZED, Admit counts a failure.
// It does so only after `find` has checked the key, so that the limit on failures does not lock out a valid
// key from the same address. The limit of the address counts a failure like any other request.
func (l *Limiter) Admit(r *http.Request, now time.Time, find func() (Buckets, error)) error {
	from := l.ClientAddress(r)
	if err := l.AllowAddress(from, now); err != nil {
		return err
	}
	of, err := find()
	switch {
	case api.CodeOf(err) == api.Unauthorized:
		return cmp.Or(l.AllowFailure(from, now), err)
	case err != nil:
		return err
	}
	return l.allow(of, now)
}

// AllowAddress counts a request, and returns an error if the address has sent too many.
func (l *Limiter) AllowAddress(from netip.Addr, now time.Time) error {
	return tooFast("from this address", l.perAddress.take(from, now.UnixNano()))
}

// AllowFailure counts a failed authentication, and returns an error if the address had too many.
func (l *Limiter) AllowFailure(from netip.Addr, now time.Time) error {
	return tooFast("without a valid API key from this address", l.failures.take(from, now.UnixNano()))
}

// allow counts an authenticated request, and returns an error if one of its buckets had too many. The narrowest limit
// comes first, so that a key above its own limit takes nothing from its organisation.
func (l *Limiter) allow(of Buckets, now time.Time) error {
	for _, each := range [...]struct {
		bucket *Bucket
		limit  rate
		which  string
	}{
		{of.Key, l.perKey, "with this API key"},
		{of.Namespace, l.perNamespace, "in this namespace"},
		{of.Org, l.perOrg, "in this organisation"},
	} {
		if each.bucket == nil || each.limit.every == 0 {
			continue
		}
		if err := tooFast(each.which, each.bucket.take(each.limit, now.UnixNano())); err != nil {
			return err
		}
	}
	return nil
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
