package ratelimit

import (
	"hash/maphash"
	"net/netip"
	"sync/atomic"
	"time"
)

// rate is a number of requests per second and a burst.
type rate struct {
	every time.Duration // the time between two requests; 0 = no limit
	burst int64         // the requests that may come at once after a pause
}

// perSecond returns the rate of n requests a second; 0 = no limit.
func perSecond(n, burst int64) rate {
	if n == 0 {
		return rate{}
	}
	return rate{time.Second / time.Duration(n), burst}
}

// Bucket counts requests against one rate by the generic cell rate algorithm. It holds a single number, the
// theoretical arrival time: if all requests came evenly, the next one would come then. So it needs no lock
// and no other memory. The zero Bucket allows the whole burst.
type Bucket struct{ theoreticalNs atomic.Int64 }

// take admits one request and returns 0, or admits none and returns the time to wait before trying again.
func (b *Bucket) take(p rate, nowNs int64) (wait time.Duration) {
	for {
		was := b.theoreticalNs.Load()
		next := max(was, nowNs) + int64(p.every)
		if ahead := next - nowNs - p.burst*int64(p.every); ahead > 0 {
			return time.Duration(ahead)
		}
		if b.theoreticalNs.CompareAndSwap(was, next) {
			return 0
		}
	}
}

// reserve admits one request, perhaps at a later time, and returns the wait until then. Reservations follow
// each other at the rate, and take counts them as used.
func (b *Bucket) reserve(p rate, nowNs int64) (wait time.Duration) {
	for {
		was := b.theoreticalNs.Load()
		next := max(was, nowNs) + int64(p.every)
		if b.theoreticalNs.CompareAndSwap(was, next) {
			return max(0, time.Duration(next-nowNs-p.burst*int64(p.every)))
		}
	}
}

// Full reports whether the whole burst is allowed again, so that a new bucket can replace this one.
func (b *Bucket) Full(now time.Time) bool { return b.theoreticalNs.Load() <= now.UnixNano() }

// addressBucketCount is the number of buckets for client addresses. They take half a megabyte for each limit,
// whatever the number of clients. Addresses with the same hash share a bucket. The seed is random, so that no
// client can find out with whom it shares one.
const addressBucketCount = 1 << 16

// addressBuckets are the buckets of client addresses.
type addressBuckets struct {
	rate    rate
	seed    maphash.Seed
	buckets []Bucket
}

// newAddressBuckets returns nil for a rate without a limit.
func newAddressBuckets(p rate) *addressBuckets {
	if p.every == 0 {
		return nil
	}
	return &addressBuckets{p, maphash.MakeSeed(), make([]Bucket, addressBucketCount)}
}

// take calls take on the bucket of an address. Without a limit it returns 0.
func (a *addressBuckets) take(from netip.Addr, nowNs int64) (wait time.Duration) {
	if a == nil {
		return 0
	}
	return a.of(from).take(a.rate, nowNs)
}

// reserve calls reserve on the bucket of an address. Without a limit it returns 0.
func (a *addressBuckets) reserve(from netip.Addr, nowNs int64) (wait time.Duration) {
	if a == nil {
		return 0
	}
	return a.of(from).reserve(a.rate, nowNs)
}

// of returns the bucket of an address. An IPv6 network with a prefix of 64 bits counts as one address,
// because a provider gives each customer at least one such network.
func (a *addressBuckets) of(from netip.Addr) *Bucket {
	from = from.Unmap().WithZone("")
	if from.Is6() {
		if network, err := from.Prefix(64); err == nil {
			from = network.Addr()
		}
	}
	return &a.buckets[maphash.Comparable(a.seed, from)%addressBucketCount]
}
