package server

import (
	"hash/maphash"
	"net/netip"
	"sync/atomic"
	"time"
)

// pace is a rate, and how many may come at once after a pause.
type pace struct {
	every time.Duration // between two; 0 = no limit
	burst int64
}

// perSecond is a pace of n a second; 0 = no limit.
func perSecond(n, burst int64) pace {
	if n == 0 {
		return pace{}
	}
	return pace{time.Second / time.Duration(n), burst}
}

// A bucket is one number: when all that was let through would have come if it had come
// at the pace (the generic cell rate algorithm). It takes no lock and no memory beyond
// itself, and the zero bucket is full.
type bucket struct{ evenNs atomic.Int64 }

// take lets one through, or says after how long to try again.
func (b *bucket) take(p pace, nowNs int64) (wait time.Duration) {
	for {
		was := b.evenNs.Load()
		next := max(was, nowNs) + int64(p.every)
		if ahead := next - nowNs - p.burst*int64(p.every); ahead > 0 {
			return time.Duration(ahead)
		}
		if b.evenNs.CompareAndSwap(was, next) {
			return 0
		}
	}
}

// addressBuckets is how many buckets there are for the addresses of clients: half a
// megabyte, whoever comes. Addresses that fall into one share it; which those are,
// nobody outside can tell.
const addressBuckets = 1 << 16

// addresses are buckets of clients' addresses.
type addresses struct {
	pace    pace
	seed    maphash.Seed
	buckets []bucket
}

// newAddresses makes them, or nil where there is no limit.
func newAddresses(p pace) *addresses {
	if p.every == 0 {
		return nil
	}
	return &addresses{p, maphash.MakeSeed(), make([]bucket, addressBuckets)}
}

// take is that of the bucket of an address. What a provider gives one customer is one
// address: of IPv6 that is a network of 64 bits.
func (a *addresses) take(from netip.Addr, nowNs int64) (wait time.Duration) {
	if a == nil {
		return 0
	}
	from = from.Unmap().WithZone("")
	if from.Is6() {
		if network, err := from.Prefix(64); err == nil {
			from = network.Addr()
		}
	}
	return a.buckets[maphash.Comparable(a.seed, from)%addressBuckets].take(a.pace, nowNs)
}
