package loadgen

import "time"

// watchEvery is the pause between two calls of Config.Watch.
const watchEvery = 200 * time.Millisecond

// The phases of a run, in their order.
const (
	Preparing = "preparing" // makes the queues and their backlogs
	WarmingUp = "warm-up"   // makes load that is not measured
	Measuring = "measuring"
	Removing  = "removing the queues"
)

// Progress says how far a phase of a run is.
type Progress struct {
	Phase       string
	Done, Total uint64        // jobs, or milliseconds where a time ends the phase; Total 0: unknown
	Left        time.Duration // until the phase ends; for a number of jobs an estimate, 0: unknown
}

// watch calls Config.Watch with the progress of a phase every watchEvery, and a last
// time when the phase has ended. The caller ends the phase by calling stop.
func (r *run) watch(progress func(now time.Time) Progress) (stop func()) {
	if r.Watch == nil {
		return func() {}
	}
	ended, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			select {
			case now := <-tick.C:
				r.Watch(progress(now))
			case <-ended:
				r.Watch(progress(time.Now()))
				return
			}
		}
	}()
	return func() { close(ended); <-gone }
}

// endless returns the progress of a phase of unknown length.
func endless(phase string) func(time.Time) Progress {
	return func(time.Time) Progress { return Progress{Phase: phase} }
}

// progress returns how far the load is.
func (r *run) progress(now time.Time) Progress {
	p := r.pace
	switch {
	case now.Before(p.from):
		return timed(WarmingUp, p.begin, p.from, now)
	case r.Workload == Work:
		left := int64(0)
		for i := range r.backlogs {
			left += max(r.backlogs[i].left.Load(), 0)
		}
		return counted(int64(r.Jobs)-left, int64(r.Jobs), now.Sub(p.begin))
	case p.rate > 0:
		return timed(Measuring, p.from, p.at(p.operations()), now)
	case !p.until.IsZero():
		return timed(Measuring, p.from, p.until, now)
	}
	return counted(p.taken.Load(), p.jobs, now.Sub(p.begin))
}

// timed returns the progress of a phase between two times.
func timed(phase string, begin, end, now time.Time) Progress {
	total, done := end.Sub(begin), min(now.Sub(begin), end.Sub(begin))
	return Progress{Phase: phase, Done: uint64(max(done, 0).Milliseconds()), Total: uint64(max(total, 0).Milliseconds()), Left: total - done}
}

// counted returns the progress of measuring a number of jobs. It estimates the time left from the rate so
// far.
func counted(done, total int64, took time.Duration) Progress {
	done = max(min(done, total), 0)
	p := Progress{Phase: Measuring, Done: uint64(done), Total: uint64(total)}
	if done > 0 {
		p.Left = time.Duration(float64(took) / float64(done) * float64(total-done))
	}
	return p
}
