package sinks

import (
	"fmt"
	"net/netip"
	"syscall"
)

// special are the networks that a webhook does not call unless the node's operator
// lets it, besides what netip knows as private, loopback, link-local, multicast or
// none: who may declare a webhook must not get to speak to what only this machine
// can reach. The last ones carry addresses of IPv4 in those of IPv6.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"), // shared by carriers
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), // benchmarks
	netip.MustParsePrefix("240.0.0.0/4"),   // reserved, and broadcast
	netip.MustParsePrefix("fec0::/10"),     // site-local once
	netip.MustParsePrefix("::/96"),
	netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("2001::/32"),
	netip.MustParsePrefix("2002::/16"),
}

// refusePrivate is a net.Dialer's Control: it sees the address that is called, after
// its name was looked up, and refuses one that is not of the public Internet.
func refusePrivate(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%q is no address", address)
	}
	if !public(to.Addr()) {
		return fmt.Errorf("%s is a private address: the node calls none unless it is started with --webhook-allow-private", to.Addr())
	}
	return nil
}

// public says whether an address is of the public Internet.
func public(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	for _, net := range special {
		if net.Contains(a) {
			return false
		}
	}
	return true
}
