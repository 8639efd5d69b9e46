package settings

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/corvo/corvo/api/serve/ratelimit"
)

// Admission are the settings that limit the rate of requests and the number of connections of
// a process that clients reach.
type Admission struct {
	RatePerKey     int64  `flag:"rate-limit-per-key" doc:"limit on requests a second of one API key to this node (default: no limit)"`
	RatePerAddress int64  `flag:"rate-limit-per-address" doc:"limit on requests a second of one client address to this node (default: no limit)"`
	RateFailures   int64  `flag:"rate-limit-failed-auth" default:"20" doc:"limit on failed authentications a second of one client address; 0 for no limit"`
	TrustedProxies string `flag:"trusted-proxies" doc:"networks of trusted proxies, 10.0.0.0/8,...: only their X-Forwarded-For, Forwarded and X-Real-IP headers count"`
	MaxConnections int64  `flag:"max-connections" default:"16384" doc:"limit on client connections; 0 for no limit"`
}

// MaxConnections is the largest value of --max-connections, because with more connections a
// machine runs out of ports or memory before the limit refuses anybody.
const MaxConnections = 1_000_000

// Check calls refuse for each setting with whether it is good and the error message if not.
func (a *Admission) Check(refuse func(good bool, message string, args ...any)) {
	for flag, n := range map[string]int64{
		"rate-limit-per-key": a.RatePerKey, "rate-limit-per-address": a.RatePerAddress, "rate-limit-failed-auth": a.RateFailures,
	} {
		refuse(n >= 0 && n <= ratelimit.MaxRate, "--%s is %d; it must be between 0, for no limit, and %d", flag, n, ratelimit.MaxRate)
	}
	refuse(a.MaxConnections >= 0 && a.MaxConnections <= MaxConnections, "--max-connections is %d; it must be between 0, for no limit, and %d", a.MaxConnections, MaxConnections)
	proxies, err := a.proxies()
	refuse(err == nil, "--trusted-proxies: %v", err)
	refuse(len(proxies) <= ratelimit.MaxProxies, "--trusted-proxies has %d networks; it must have at most %d", len(proxies), ratelimit.MaxProxies)
}

// proxies parses TrustedProxies. It refuses a network of all addresses, because each client
// could then choose its own address.
func (a *Admission) proxies() (all []netip.Prefix, err error) {
	for text := range strings.SplitSeq(a.TrustedProxies, ",") {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		network, err := netip.ParsePrefix(text)
		if addr, wrong := netip.ParseAddr(text); err != nil && wrong == nil {
			network, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("%q is not a network, such as 10.0.0.0/8 or 2001:db8::1", text)
		case network.Bits() == 0:
			return nil, fmt.Errorf("%s matches every address: give the networks of your proxies", text)
		}
		all = append(all, network.Masked())
	}
	return all, nil
}

// Limits returns the rate limits. Check must have accepted the settings.
func (a *Admission) Limits() ratelimit.Limits {
	proxies, _ := a.proxies()
	return ratelimit.Limits{PerKey: a.RatePerKey, PerAddress: a.RatePerAddress, Failures: a.RateFailures, Proxies: proxies}
}
