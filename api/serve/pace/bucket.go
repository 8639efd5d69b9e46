package pace

import (
	"hash/maphash"
	"net/netip"
	"sync/atomic"
	"time"
)

// rate is a pace, and how many may come at once after a pause.
type rate struct {
	every time.Duration // between two; 0 = no limit
	burst int64
}

// perSecond is n a second; 0 = no limit.
func perSecond(n, burst int64) rate {
	if n == 0 {
		return rate{}
	}
	return rate{time.Second / time.Duration(n), burst}
}

// A Bucket is one number: when all that was let through would have come if it had come
// at the pace (the generic cell rate algorithm). It takes no lock and no memory beyond
// itself, and the zero Bucket is full.
type Bucket struct{ evenNs atomic.Int64 }

// take lets one through, or says after how long to try again.
func (b *Bucket) take(p rate, nowNs int64) (wait time.Duration) {
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

// due lets one through that waits for its turn, and says how long. The turns of those
// that wait come one after the other; who only asks finds them taken.
func (b *Bucket) due(p rate, nowNs int64) (wait time.Duration) {
	for {
		was := b.evenNs.Load()
		next := max(was, nowNs) + int64(p.every)
		if b.evenNs.CompareAndSwap(was, next) {
			return max(0, time.Duration(next-nowNs-p.burst*int64(p.every)))
		}
	}
}

// Rests says whether a bucket is full: it says nothing that a new one would not.
func (b *Bucket) Rests(now time.Time) bool { return b.evenNs.Load() <= now.UnixNano() }

// addressBuckets is how many buckets there are for the addresses of clients: half a
// megabyte, whoever comes. Addresses that fall into one share it; which those are,
// nobody outside can tell.
const addressBuckets = 1 << 16

// addresses are buckets of clients' addresses.
type addresses struct {
	rate    rate
	seed    maphash.Seed
	buckets []Bucket
}

// newAddresses makes them, or nil where there is no limit.
func newAddresses(p rate) *addresses {
	if p.every == 0 {
		return nil
	}
	return &addresses{p, maphash.MakeSeed(), make([]Bucket, addressBuckets)}
}

// take is that of the bucket of an address.
func (a *addresses) take(from netip.Addr, nowNs int64) (wait time.Duration) {
	if a == nil {
		return 0
	}
	return a.of(from).take(a.rate, nowNs)
}

// due is that of the bucket of an address.
func (a *addresses) due(from netip.Addr, nowNs int64) (wait time.Duration) {
	if a == nil {
		return 0
	}
	return a.of(from).due(a.rate, nowNs)
}

// of is the bucket of an address. What a provider gives one customer is one address: of
// IPv6 that is a network of 64 bits.
func (a *addresses) of(from netip.Addr) *Bucket {
	from = from.Unmap().WithZone("")
	if from.Is6() {
		if network, err := from.Prefix(64); err == nil {
			from = network.Addr()
		}
	}
	return &a.buckets[maphash.Comparable(a.seed, from)%addressBuckets]
}
