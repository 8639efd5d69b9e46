package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The load is the same for all systems.
const (
	payloadBytes = 200
	atOnce       = 64
	streams      = 32 // clients of the rows "64 at once"
	callers      = 512
	// backlog is the number of jobs enqueued in advance per second of a measurement of
	// work. The fastest system does fewer.
	backlog = 60_000
	// window is the maximum number of jobs in the steady state that are enqueued and not
	// yet acknowledged: 32 clients enqueue so many with 64 each in one step.
	window = streams * atOnce
)

// samples are the latencies of one client.
type samples []time.Duration

// drive runs a closed loop: each client repeats step as soon as its last one has ended.
// It returns the rate of jobs and the latency of steps. A step that returns 0 jobs ends
// its client and is not counted.
func drive(ctx context.Context, clients int, d time.Duration, step func(ctx context.Context, client int) (jobs int, err error)) (outcome, error) {
	// A step that hangs fails a minute after the end.
	ctx, cancel := context.WithTimeout(ctx, d+time.Minute)
	defer cancel()
	var jobs atomic.Int64
	all, errs, ends := make([]samples, clients), make([]error, clients), make([]time.Duration, clients)
	begin := time.Now()
	var running sync.WaitGroup
	for i := range clients {
		running.Go(func() {
			for now := time.Now(); now.Sub(begin) < d; {
				n, err := step(ctx, i)
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

// summary computes the rate and the quantiles.
func summary(jobs int64, elapsed time.Duration, all []samples) outcome {
	latencies := slices.Concat(all...)
	slices.Sort(latencies)
	o := outcome{rate: float64(jobs) / elapsed.Seconds()}
	if n := len(latencies); n > 0 {
		o.p50, o.p99 = latencies[n/2], latencies[n*99/100]
	}
	return o
}

// flow is a steady state of producers and workers. Producers wait while window jobs are
// under way; workers call done.
type flow struct {
	begin    time.Time
	made     atomic.Int64
	finished atomic.Int64
	mu       sync.Mutex
	lives    samples
}

// room waits until n more jobs may be under way. It returns false when ctx ends.
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

// done counts finished jobs and their latencies, given the times of their enqueues.
func (f *flow) done(made ...int64) {
	now := time.Since(f.begin)
	f.finished.Add(int64(len(made)))
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, at := range made {
		f.lives = append(f.lives, now-time.Duration(at))
	}
}

// now returns the time since the start, for a job's payload.
func (f *flow) now() int64 { return int64(time.Since(f.begin)) }

// outcome returns the results so far.
func (f *flow) outcome() outcome {
	f.mu.Lock()
	defer f.mu.Unlock()
	return summary(f.finished.Load(), time.Since(f.begin), []samples{f.lives})
}

// produce runs clients that enqueue n jobs per step, for a duration.
func (f *flow) produce(ctx context.Context, d time.Duration, clients, n int, step func(ctx context.Context, client int) error) (outcome, error) {
	until, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	errs := make([]error, clients)
	var running sync.WaitGroup
	for i := range clients {
		running.Go(func() {
			for f.room(until, n) && errs[i] == nil {
				errs[i] = step(ctx, i)
			}
		})
	}
	running.Wait()
	return f.outcome(), errors.Join(errs...)
}

// payload returns the payload of a job that is enqueued at a time.
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

// madeAt returns the time of the enqueue from a payload.
func madeAt(payload []byte) (at int64) {
	for _, digit := range payload[7:26] {
		at = 10*at + int64(digit-'0')
	}
	return at
}
