package job

// DelayMs returns the delay in milliseconds between an attempt that ended without success and the next one.
// attempt is the number of the ended attempt, from 1; 0 counts as 1. The delay never exceeds MaxDelayMs and
// never overflows. The first retry of fixed, linear and exponential waits exactly BaseDelayMs, unless
// MaxDelayMs is shorter. A backoff that this binary does not know is treated as exponential, the default.
// VariedDelayMs adds the jitter.
func (r *Retry) DelayMs(attempt uint32) int64 {
	base, most := r.GetBaseDelayMs(), r.GetMaxDelayMs()
	if base <= 0 || most <= 0 || r.GetBackoff() == BackoffNone {
		return 0
	}
	attempt = max(attempt, 1)
	switch r.GetBackoff() {
	case BackoffFixed:
		return min(base, most)
	case BackoffLinear:
		// base*attempt > most, without the product
		if base > most/int64(attempt) {
			return most
		}
		return base * int64(attempt)
	default:
		// base*2^doublings > most, without the product
		doublings := attempt - 1
		if doublings >= 63 || base > most>>doublings {
			return most
		}
		return base << doublings
	}
}
