package loadgen

import (
	"context"
	"math"
	"sync/atomic"
	"time"
)

// A pace decides when operations begin and which is the last.
//
// In a closed loop each client begins its next operation when its last one has ended: a server that stalls
// gets fewer requests, and the stall is one slow operation for each client. At a fixed rate the operations
// are numbered and each has its time, independent of the server. If a busy client begins an operation late,
// the wait since its time is part of its latency.
type pace struct {
	batch int
	begin time.Time // start of the warm-up
	from  time.Time // start of the measurement
	until time.Time // closed loop: no operation begins from then on; zero = when all jobs are taken
	jobs  int64     // 0 = only until ends the run
	rate  float64   // jobs a second; 0: closed loop
	last  time.Time // fixed rate: no operation begins after it

	taken  atomic.Int64 // closed loop: jobs; fixed rate: operations
	missed atomic.Int64 // operations that a client took after last
}

func newPace(c Config, now time.Time) *pace {
	p := &pace{batch: c.Batch, begin: now, from: now.Add(c.Warmup), jobs: int64(c.Jobs), rate: c.Rate}
	if c.For > 0 {
		p.until = p.from.Add(c.For)
		p.jobs = 0
		if p.rate > 0 {
			p.jobs = int64(math.Ceil((c.Warmup + c.For).Seconds() * p.rate))
		}
	}
	switch {
	case c.Workload == Work:
		p.jobs, p.last = math.MaxInt64, p.begin.Add(MaxFor) // the backlog ends the run
	case p.rate > 0:
		p.last = p.at(p.operations()).Add(drainFor)
	}
	return p
}

// operations returns the number of operations of a fixed rate.
func (p *pace) operations() int64 { return (p.jobs-1)/int64(p.batch) + 1 }

// at returns the time of operation k of a fixed rate.
func (p *pace) at(k int64) time.Time {
	return p.begin.Add(time.Duration(float64(k) * float64(p.batch) / p.rate * float64(time.Second)))
}

// next waits for the next operation, and returns its time and number of jobs; 0 = this client has no more
// operations.
func (p *pace) next(stop context.Context) (at time.Time, jobs int) {
	if stop.Err() != nil {
		return at, 0
	}
	if p.rate == 0 {
		return p.nextClosed()
	}
	k := p.taken.Add(1) - 1
	if k >= p.operations() {
		return at, 0
	}
	at = p.at(k)
	if wait := time.Until(at); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-stop.Done():
			return at, 0
		}
	} else if time.Now().After(p.last) {
		p.missed.Add(1)
		return at, 0
	}
	return at, int(min(int64(p.batch), p.jobs-k*int64(p.batch)))
}

func (p *pace) nextClosed() (time.Time, int) {
	now := time.Now()
	if !p.until.IsZero() {
		if !now.Before(p.until) {
			return now, 0
		}
		return now, p.batch
	}
	jobs := min(int64(p.batch), p.jobs-(p.taken.Add(int64(p.batch))-int64(p.batch)))
	return now, int(max(jobs, 0))
}

// notSent returns the number of operations of a fixed rate that never began.
func (p *pace) notSent() int64 {
	if p.rate == 0 {
		return 0
	}
	return p.missed.Load() + max(p.operations()-p.taken.Load(), 0)
}
