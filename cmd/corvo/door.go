package main

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/corvo/corvo/dataplane/server"
)

// maxConnections is the most that --max-connections may say: beyond, a machine runs out
// of ports or memory before this node refuses anybody.
const maxConnections = 1_000_000

// checkDoor refuses limits at the door that cannot be.
func (c *serverConfig) checkDoor(f *faults) {
	for flag, n := range map[string]int64{
		"rate-limit-per-key": c.RatePerKey, "rate-limit-per-address": c.RatePerAddress, "rate-limit-failed-auth": c.RateFailures,
	} {
		f.refuse(n >= 0 && n <= server.MaxRate, "--%s is %d; it must be between 0, for no limit, and %d", flag, n, server.MaxRate)
	}
	f.refuse(c.MaxConnections >= 0 && c.MaxConnections <= maxConnections, "--max-connections is %d; it must be between 0, for no limit, and %d", c.MaxConnections, maxConnections)
	proxies, err := c.proxies()
	f.refuse(err == nil, "--trusted-proxies: %v", err)
	f.refuse(len(proxies) <= server.MaxProxies, "--trusted-proxies has %d networks; it must have at most %d", len(proxies), server.MaxProxies)
}

// proxies are the networks whose word is taken. One that is everybody's is refused: it
// would have each client say who it is.
func (c *serverConfig) proxies() (all []netip.Prefix, err error) {
	for text := range strings.SplitSeq(c.TrustedProxies, ",") {
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

// limits are how fast the node may be asked. One that is open has none.
func (c *serverConfig) limits() server.DoorLimits {
	proxies, _ := c.proxies() // check has had a look at them
	return server.DoorLimits{PerKey: c.RatePerKey, PerAddress: c.RatePerAddress, Failures: c.RateFailures, Proxies: proxies}
}
