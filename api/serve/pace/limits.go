// Package pace is how fast a server is asked: limits per key, per address and per failure
// to authenticate, and who is believed to say whom they forward for.
package pace

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/corvo/corvo/api"
)

// Limits bound how fast a server is asked; 0 = not. They are its own: a client that asks
// three is let through three times as often.
type Limits struct {
	PerKey     int64 // requests a second with one key
	PerAddress int64 // requests a second from one address
	// Failures is how many requests a second from one address may fail to authenticate.
	// Those above are told to wait, and are not recorded one by one.
	Failures int64
	// Proxies are believed when they say whom they forward for.
	Proxies []netip.Prefix
}

// The bounds of limits at the door.
const (
	MaxRate    = 1_000_000 // requests a second
	MaxProxies = 64        // networks of proxies

	// failuresBurst is for how many seconds failures may come at once: a fleet of workers
	// that is started with a key that was revoked should be told so, each of them.
	failuresBurst = 5
)

// Check refuses limits that cannot be.
func (l *Limits) Check() error {
	for name, n := range map[string]int64{"PerKey": l.PerKey, "PerAddress": l.PerAddress, "Failures": l.Failures} {
		if n < 0 || n > MaxRate {
			return fmt.Errorf("pace: %s of %d a second: it lies between 0, for no limit, and %d", name, n, MaxRate)
		}
	}
	if len(l.Proxies) > MaxProxies {
		return fmt.Errorf("pace: %d proxies: at most %d", len(l.Proxies), MaxProxies)
	}
	return nil
}

// Limiter is Limits at work. The zero Limiter has none and believes nobody.
type Limiter struct {
	perKey     rate
	perAddress *addresses // nil = no limit
	failures   *addresses // nil = no limit
	proxies    []netip.Prefix
}

// New puts limits to work.
func New(l Limits) Limiter {
	return Limiter{
		perKey:     perSecond(l.PerKey, l.PerKey),
		perAddress: newAddresses(perSecond(l.PerAddress, l.PerAddress)),
		failures:   newAddresses(perSecond(l.Failures, failuresBurst*l.Failures/2)),
		proxies:    l.Proxies,
	}
}

// Any says whether there is a limit.
func (l *Limiter) Any() bool {
	return l.perKey.every != 0 || l.perAddress != nil || l.failures != nil
}

// Enter lets a request in that find knows the key of, within the limits. A failure is
// counted after the key was looked at, so that a flood from an address never keeps out a
// valid key from there. find may leave out the bucket where keys have no limit.
func (l *Limiter) Enter(r *http.Request, now time.Time, find func() (*Bucket, error)) error {
	from := l.From(r)
	if err := l.Arrives(from, now); err != nil {
		return err
	}
	key, err := find()
	switch {
	case api.CodeOf(err) == api.Unauthorized:
		return cmp.Or(l.Failed(from, now), err)
	case err != nil:
		return err
	}
	return l.asks(key, now)
}

// Arrives refuses a request from an address that asks too often.
func (l *Limiter) Arrives(from netip.Addr, now time.Time) error {
	return tooFast("from this address", l.perAddress.take(from, now.UnixNano()))
}

// Failed refuses one that authenticates too badly too often.
func (l *Limiter) Failed(from netip.Addr, now time.Time) error {
	return tooFast("without a valid API key from this address", l.failures.take(from, now.UnixNano()))
}

// asks refuses a request with a key that asks too often.
func (l *Limiter) asks(key *Bucket, now time.Time) error {
	if l.perKey.every == 0 {
		return nil
	}
	return tooFast("with this API key", key.take(l.perKey, now.UnixNano()))
}

// Due is for how long what comes with a key from an address has to wait where it can be
// left waiting, as a frame of a stream can. It has its turn then, and takes what a request
// would. key is nil where there is none.
func (l *Limiter) Due(key *Bucket, from netip.Addr, now time.Time) (wait time.Duration) {
	if l.perAddress != nil {
		wait = l.perAddress.due(from, now.UnixNano())
	}
	if l.perKey.every != 0 && key != nil {
		wait = max(wait, key.due(l.perKey, now.UnixNano()))
	}
	return wait
}

func tooFast(which string, wait time.Duration) error {
	if wait == 0 {
		return nil
	}
	e := api.Errorf(api.RateLimited, "too many requests a second %s here: wait as long as Retry-After says", which)
	e.RetryAfter = wait
	return e
}
