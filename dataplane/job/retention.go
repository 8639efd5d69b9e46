package job

import "time"

// Of returns how long a job that settled in the state is kept, in milliseconds: 0 means not set, a negative
// time means for ever.
func (r *Retention) Of(s State) int64 {
	switch s {
	case Completed:
		return r.GetCompletedMs()
	case Dead:
		return r.GetDeadMs()
	case Cancelled:
		return r.GetCancelledMs()
	}
	return 0
}

// Kept returns how long a job that settled in the state is kept: as the first retention says that sets a time
// for the state, or else DefaultRetentionTime. A negative time means for ever.
func Kept(s State, said ...*Retention) time.Duration {
	for _, r := range said {
		if ms := r.Of(s); ms != 0 {
			return time.Duration(ms) * time.Millisecond
		}
	}
	return DefaultRetentionTime
}
