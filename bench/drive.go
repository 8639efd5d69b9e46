package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The load, the same for all.
const (
	payloadBytes = 200
	atOnce       = 64
	streams      = 32 // clients of what goes 64 at once
	callers      = 512
	// backlog is how many jobs are there for each second of a measurement of work: more
	// than the fastest does.
	backlog = 60_000
	// window is how many jobs may be under way in the steady state, enqueued and not yet
	// acknowledged, the same for all: as many as 32 clients with 64 each enqueue in a turn.
	window = streams * atOnce
)

// samples are latencies of one client.
type samples []time.Duration

// drive has clients do something again and again, each as soon as it has done it, and
// says how many jobs a second that was and how long each turn took. A turn without jobs
// says that there are no more, and is not counted.
func drive(ctx context.Context, clients int, d time.Duration, turn func(ctx context.Context, client int) (jobs int, err error)) (outcome, error) {
	// What has not ended a good while after its time never will.
	ctx, cancel := context.WithTimeout(ctx, d+time.Minute)
	defer cancel()
	var jobs atomic.Int64
	all, errs, ends := make([]samples, clients), make([]error, clients), make([]time.Duration, clients)
	begin := time.Now()
	var running sync.WaitGroup
	for i := range clients {
		running.Go(func() {
			for now := time.Now(); now.Sub(begin) < d; {
				n, err := turn(ctx, i)
				if err != nil || n == 0 {
					errs[i] = err
					return
				}
				after := time.Now()
				ends[i] = after.Sub(begin)
				all[i] = append(all[i], after.Sub(now))
				jobs.Add(int64(n))
				now = after
			}
		})
	}
	running.Wait()
	return summary(jobs.Load(), max(slices.Max(ends), 1), all), errors.Join(errs...)
}

// summary makes an outcome of what was counted.
func summary(jobs int64, elapsed time.Duration, all []samples) outcome {
	latencies := slices.Concat(all...)
	slices.Sort(latencies)
	o := outcome{rate: float64(jobs) / elapsed.Seconds()}
	if n := len(latencies); n > 0 {
		o.p50, o.p99 = latencies[n/2], latencies[n*99/100]
	}
	return o
}

// flow is a steady state: producers, who wait while too many jobs are under way, and
// workers somewhere, who call done.
type flow struct {
	begin    time.Time
	made     atomic.Int64
	finished atomic.Int64
	mu       sync.Mutex
	lives    samples
}

// room waits until n more jobs may be under way, or the time is over.
func (f *flow) room(ctx context.Context, n int) bool {
	for ctx.Err() == nil {
		if f.made.Add(int64(n))-f.finished.Load() <= window {
			return true
		}
		f.made.Add(-int64(n))
		time.Sleep(50 * time.Microsecond)
	}
	return false
}

// done counts jobs that are finished, by the times of their making.
func (f *flow) done(made ...int64) {
	now := time.Since(f.begin)
	f.finished.Add(int64(len(made)))
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, at := range made {
		f.lives = append(f.lives, now-time.Duration(at))
	}
}

// now is what a job says of when it was made.
func (f *flow) now() int64 { return int64(time.Since(f.begin)) }

// outcome is what the flow has done so far.
func (f *flow) outcome() outcome {
	f.mu.Lock()
	defer f.mu.Unlock()
	return summary(f.finished.Load(), time.Since(f.begin), []samples{f.lives})
}

// produce has clients make jobs for a time, n in a turn.
func (f *flow) produce(ctx context.Context, d time.Duration, clients, n int, turn func(ctx context.Context, client int) error) (outcome, error) {
	until, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	errs := make([]error, clients)
	var running sync.WaitGroup
	for i := range clients {
		running.Go(func() {
			for f.room(until, n) && errs[i] == nil {
				errs[i] = turn(ctx, i)
			}
		})
	}
	running.Wait()
	return f.outcome(), errors.Join(errs...)
}

// payload is a job's, with the time that it was made at.
func payload(at int64) []byte {
	out := make([]byte, payloadBytes)
	for i := range out {
		out[i] = ' '
	}
	copy(out, `{"at":"0000000000000000000"`)
	for i := 25; at > 0; i, at = i-1, at/10 {
		out[i] = byte('0' + at%10)
	}
	out[payloadBytes-1] = '}'
	return out
}

// madeAt is the time that a payload says.
func madeAt(payload []byte) (at int64) {
	for _, digit := range payload[7:26] {
		at = 10*at + int64(digit-'0')
	}
	return at
}
