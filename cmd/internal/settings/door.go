package settings

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/corvo/corvo/api/serve/pace"
)

// Door is what a process that clients reach can be told of how fast, and by how many, it
// is asked.
type Door struct {
	RatePerKey     int64  `flag:"rate-limit-per-key" doc:"requests a second that one API key may make of this node (default: no limit)"`
	RatePerAddress int64  `flag:"rate-limit-per-address" doc:"requests a second that one client address may make of this node (default: no limit)"`
	RateFailures   int64  `flag:"rate-limit-failed-auth" default:"20" doc:"requests a second from one client address that may fail to authenticate, 0 = no limit"`
	TrustedProxies string `flag:"trusted-proxies" doc:"networks of proxies, 10.0.0.0/8,...: what they say of whom they forward for is believed (X-Forwarded-For, Forwarded, X-Real-IP), nobody else"`
	MaxConnections int64  `flag:"max-connections" default:"16384" doc:"most connections of clients at once, 0 = no limit"`
}

// MaxConnections is the most that --max-connections may say: beyond, a machine runs out
// of ports or memory before anybody is refused.
const MaxConnections = 1_000_000

// Check has refuse told of every limit whether it can be, and what to say if not.
func (d *Door) Check(refuse func(good bool, message string, args ...any)) {
	for flag, n := range map[string]int64{
		"rate-limit-per-key": d.RatePerKey, "rate-limit-per-address": d.RatePerAddress, "rate-limit-failed-auth": d.RateFailures,
	} {
		refuse(n >= 0 && n <= pace.MaxRate, "--%s is %d; it must be between 0, for no limit, and %d", flag, n, pace.MaxRate)
	}
	refuse(d.MaxConnections >= 0 && d.MaxConnections <= MaxConnections, "--max-connections is %d; it must be between 0, for no limit, and %d", d.MaxConnections, MaxConnections)
	proxies, err := d.proxies()
	refuse(err == nil, "--trusted-proxies: %v", err)
	refuse(len(proxies) <= pace.MaxProxies, "--trusted-proxies has %d networks; it must have at most %d", len(proxies), pace.MaxProxies)
}

// proxies are the networks whose word is taken. One that is everybody's is refused: it
// would have each client say who it is.
func (d *Door) proxies() (all []netip.Prefix, err error) {
	for text := range strings.SplitSeq(d.TrustedProxies, ",") {
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
			return nil, fmt.Errorf("%q is no network, such as 10.0.0.0/8 or 2001:db8::1", text)
		case network.Bits() == 0:
			return nil, fmt.Errorf("%s is everybody: name your proxies' networks", text)
		}
		all = append(all, network.Masked())
	}
	return all, nil
}

// Limits are how fast the process may be asked, after Check has had a look at them.
func (d *Door) Limits() pace.Limits {
	proxies, _ := d.proxies()
	return pace.Limits{PerKey: d.RatePerKey, PerAddress: d.RatePerAddress, Failures: d.RateFailures, Proxies: proxies}
}
