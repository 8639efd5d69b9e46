package server

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/corvo/corvo/api"
)

// DoorLimits bound how fast this node is asked; 0 = not. They are the node's own: a
// client that asks three nodes is let through three times as often. A node that is open
// has none, nor has a host of the cloud, whose gateways know the clients.
type DoorLimits struct {
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

// check refuses limits that cannot be.
func (l *DoorLimits) check() error {
	for name, n := range map[string]int64{"PerKey": l.PerKey, "PerAddress": l.PerAddress, "Failures": l.Failures} {
		if n < 0 || n > MaxRate {
			return fmt.Errorf("server: %s of %d a second: it lies between 0, for no limit, and %d", name, n, MaxRate)
		}
	}
	if len(l.Proxies) > MaxProxies {
		return fmt.Errorf("server: %d proxies: at most %d", len(l.Proxies), MaxProxies)
	}
	return nil
}

// limits are DoorLimits at work.
type limits struct {
	perKey     pace
	perAddress *addresses // nil = no limit
	failures   *addresses // nil = no limit
}

func newLimits(l DoorLimits) limits {
	return limits{
		perKey:     perSecond(l.PerKey, l.PerKey),
		perAddress: newAddresses(perSecond(l.PerAddress, l.PerAddress)),
		failures:   newAddresses(perSecond(l.Failures, failuresBurst*l.Failures/2)),
	}
}

func (l *limits) any() bool {
	return l.perKey.every != 0 || l.perAddress != nil || l.failures != nil
}

// arrives refuses a request from an address that asks too often.
func (l *limits) arrives(from netip.Addr, now time.Time) error {
	return tooFast("from this address", l.perAddress.take(from, now.UnixNano()))
}

// failed refuses one that authenticates too badly too often.
func (l *limits) failed(from netip.Addr, now time.Time) error {
	return tooFast("without a valid API key from this address", l.failures.take(from, now.UnixNano()))
}

// asks refuses a request with a key that asks too often.
func (l *limits) asks(use *keyUse, now time.Time) error {
	if l.perKey.every == 0 {
		return nil
	}
	return tooFast("with this API key", use.rate.take(l.perKey, now.UnixNano()))
}

func tooFast(which string, wait time.Duration) error {
	if wait == 0 {
		return nil
	}
	e := api.Errorf(api.RateLimited, "too many requests a second %s at this node: wait as long as Retry-After says", which)
	e.RetryAfter = wait
	return e
}
