package cluster

import (
	"fmt"
	"net"
	"strings"

	"github.com/corvo/corvo/api"
)

// Advertise returns the address under which other nodes shall reach a listener. A given address that is not
// "" wins, completed by the listener's port if it has none; one that nobody can connect to is refused with
// VALIDATION_ERROR. Without a given address, the result is the listener's address or, for a listener on all
// addresses, one that other machines can use. If the machine has no such address, the result is a loopback
// address, and warning says so.
func Advertise(given string, listens net.Addr) (address, warning string, err error) {
	return advertise(given, listens, net.InterfaceAddrs)
}

// advertise implements Advertise. If the listener accepts connections on all addresses of the machine, it
// chooses one with firstUsable.
func advertise(given string, listens net.Addr, machine func() ([]net.Addr, error)) (address, warning string, err error) {
	host, port, err := net.SplitHostPort(listens.String())
	if err != nil {
		return "", "", fmt.Errorf("the address of the listener: %w", err)
	}
	if given != "" {
		address, err = givenAddress(given, port)
		return address, "", err
	}
	ip := net.ParseIP(host)
	if host != "" && (ip == nil || !ip.IsUnspecified()) {
		return net.JoinHostPort(host, port), "", nil
	}
	all, err := machine()
	if err != nil {
		return "", "", fmt.Errorf("the addresses of this machine: %w", err)
	}
	if found := firstUsable(all); found != nil {
		return net.JoinHostPort(found.String(), port), "", nil
	}
	return net.JoinHostPort("127.0.0.1", port), "this machine has no address but loopback; set --raft-advertise to where they reach it", nil
}

// givenAddress completes the operator's address with the listener's port.
func givenAddress(given, port string) (string, error) {
	host, p, err := net.SplitHostPort(given)
	if err != nil {
		host, p = strings.Trim(given, "[]"), port
	}
	ip := net.ParseIP(host)
	if host == "" || p == "" || ip != nil && ip.IsUnspecified() {
		return "", api.Errorf(api.ValidationError, "nobody can connect to %q: --raft-advertise is a name or an address of this machine, such as node-1.example:9400", given)
	}
	return net.JoinHostPort(host, p), nil
}

// firstUsable prefers IPv4, because nearly every network has it. It skips loopback and link-local addresses,
// which other machines cannot use.
func firstUsable(all []net.Addr) (found net.IP) {
	for _, a := range all {
		network, ok := a.(*net.IPNet)
		if !ok || !network.IP.IsGlobalUnicast() {
			continue
		}
		if network.IP.To4() != nil {
			return network.IP
		}
		if found == nil {
			found = network.IP
		}
	}
	return found
}
