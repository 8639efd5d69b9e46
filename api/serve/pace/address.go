package pace

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// From is where a request comes from: the connection's other end, or, where
// that is a proxy that was named to this node, whom the proxy forwards for. Anybody can
// send a header; so of what a chain of proxies has written, that is believed which the
// last ones have that were named.
func (l *Limiter) From(r *http.Request) netip.Addr {
	end, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{} // no network: a request in process
	}
	from := end.Addr().Unmap()
	if !l.isProxy(from) {
		return from
	}
	hops := forwardedFor(r.Header)
	for i, hop := range slices.Backward(hops) {
		addr, ok := parseHop(hop)
		if !ok {
			return from // who wrote that knows no better, and all before it is hearsay
		}
		if from = addr; !l.isProxy(from) || i == 0 {
			return from
		}
	}
	return from
}

func (l *Limiter) isProxy(a netip.Addr) bool {
	return slices.ContainsFunc(l.proxies, func(p netip.Prefix) bool { return p.Contains(a) })
}

// maxHops is how many addresses of a chain of proxies are read, the last ones.
const maxHops = 32

// forwardedFor is the chain of whom a request was forwarded for, the first one first:
// what X-Forwarded-For says, else Forwarded (RFC 7239), else X-Real-IP. A proxy has to
// set the one it writes, and drop the others.
func forwardedFor(h http.Header) (hops []string) {
	if all := h["X-Forwarded-For"]; len(all) > 0 {
		hops = strings.Split(strings.Join(all, ","), ",")
	} else if all := h["Forwarded"]; len(all) > 0 {
		for element := range strings.SplitSeq(strings.Join(all, ","), ",") {
			hop := "" // an element that does not say breaks the chain
			for pair := range strings.SplitSeq(element, ";") {
				if name, value, _ := strings.Cut(strings.TrimSpace(pair), "="); strings.EqualFold(name, "for") {
					hop = strings.Trim(value, `"`)
				}
			}
			hops = append(hops, hop)
		}
	} else {
		hops = h["X-Real-Ip"]
	}
	return hops[max(0, len(hops)-maxHops):]
}

// parseHop reads an address as proxies write it: with or without a port, IPv6 in
// brackets or bare.
func parseHop(hop string) (netip.Addr, bool) {
	hop = strings.TrimSpace(hop)
	if withPort, err := netip.ParseAddrPort(hop); err == nil {
		return withPort.Addr().Unmap().WithZone(""), true
	}
	addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(hop, "["), "]"))
	return addr.Unmap().WithZone(""), err == nil
}
