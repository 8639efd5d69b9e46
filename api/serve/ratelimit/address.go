package ratelimit

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ClientAddress returns the address that sent a request: the peer of the connection or, if the peer is one of
// Limits.Proxies, the client behind that proxy. Because anybody can send a forwarding header, a hop counts
// only if a listed proxy wrote it: ClientAddress reads the hops from the last to the first and stops at the
// first address that is no listed proxy, or before a hop that is no address. It returns the zero Addr for a
// request within the process.
func (l *Limiter) ClientAddress(r *http.Request) netip.Addr {
	end, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{} // a request within the process, not from the network
	}
	from := end.Addr().Unmap()
	if !l.isProxy(from) {
		return from
	}
	hops := forwardedFor(r.Header)
	for i, hop := range slices.Backward(hops) {
		addr, ok := parseHop(hop)
		if !ok {
			return from // the proxy does not know its peer, so nothing before this hop can be trusted
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

// maxHops is the number of hops that are read, counted from the last.
const maxHops = 32

// forwardedFor returns the last maxHops hops of a request, those nearer to the client first, from
// X-Forwarded-For, or else Forwarded (RFC 7239), or else X-Real-IP. A proxy must set one of these headers and
// drop the others.
func forwardedFor(h http.Header) (hops []string) {
	if all := h["X-Forwarded-For"]; len(all) > 0 {
		hops = strings.Split(strings.Join(all, ","), ",")
	} else if all := h["Forwarded"]; len(all) > 0 {
		for element := range strings.SplitSeq(strings.Join(all, ","), ",") {
			hop := "" // an element without for= ends the trusted part of the chain
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

// parseHop parses an address as proxies write it: with or without a port, IPv6 with or without
// brackets.
func parseHop(hop string) (netip.Addr, bool) {
	hop = strings.TrimSpace(hop)
	if withPort, err := netip.ParseAddrPort(hop); err == nil {
		return withPort.Addr().Unmap().WithZone(""), true
	}
	addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(hop, "["), "]"))
	return addr.Unmap().WithZone(""), err == nil
}
