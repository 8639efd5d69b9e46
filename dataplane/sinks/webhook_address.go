package sinks

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// globalIPv6 contains all IPv6 addresses that are assigned for the public Internet. So addresses outside of
// it, such as NAT64 (64:ff9b::/96) and IPv4 addresses inside IPv6 (::/96, ::ffff:0:0:0/96), need no list.
var globalIPv6 = netip.MustParsePrefix("2000::/3")

// special lists the networks that a webhook does not call unless the node's operator allows it, besides those
// that netip reports as private, loopback, link-local, multicast or unspecified. A person who may declare a
// webhook must not reach services that only this machine can reach.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),    // shared by carriers
	netip.MustParsePrefix("168.63.129.16/32"), // Azure's services for its virtual machines
	netip.MustParsePrefix("192.0.0.0/24"),     // protocol assignments, among them Oracle's services
	netip.MustParsePrefix("192.0.2.0/24"),     // documentation
	netip.MustParsePrefix("192.88.99.0/24"),   // relays of 6to4
	netip.MustParsePrefix("198.18.0.0/15"),    // benchmarks
	netip.MustParsePrefix("198.51.100.0/24"),  // documentation
	netip.MustParsePrefix("203.0.113.0/24"),   // documentation
	netip.MustParsePrefix("240.0.0.0/4"),      // reserved, and broadcast
	netip.MustParsePrefix("2001::/23"),        // protocol assignments, among them Teredo, benchmarks and ORCHID
	netip.MustParsePrefix("2001:db8::/32"),    // documentation
	netip.MustParsePrefix("2002::/16"),        // 6to4, which carries addresses of IPv4
	netip.MustParsePrefix("3fff::/20"),        // documentation
}

// refusePrivate is a net.Dialer's Control function: it gets the address after the name was resolved. It
// refuses an address that is not on the public Internet, or that is this machine's own.
func refusePrivate(_, address string, _ syscall.RawConn) error {
	return refuse(address, net.InterfaceAddrs)
}

// refuse reads the machine's addresses at each call, because they can change while the process runs.
func refuse(address string, own func() ([]net.Addr, error)) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%q is no address", address)
	}
	const allow = "the node calls none unless it is started with --webhook-allow-private"
	if !public(to.Addr()) {
		return fmt.Errorf("%s is a private or reserved address: %s", to.Addr(), allow)
	}
	addresses, err := own()
	if err != nil {
		return fmt.Errorf("%s may be an address of this machine, whose addresses cannot be read: %w", to.Addr(), err)
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(to.Addr().WithZone("").AsSlice()) {
			return fmt.Errorf("%s is an address of this machine: %s", to.Addr(), allow)
		}
	}
	return nil
}

// public reports whether an address is on the public Internet.
func public(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.Is6() && !globalIPv6.Contains(a) {
		return false
	}
	for _, net := range special {
		if net.Contains(a) {
			return false
		}
	}
	return true
}
