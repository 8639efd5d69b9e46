package job

import "time"

// Of is how long a job is kept that settled in the state, in milliseconds: 0 says
// nothing, a negative time is for ever.
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

// Kept returns how long a job is kept that settled in the state: as the first retention
// says that says anything, else for DefaultRetentionTime. A negative time is for ever.
func Kept(s State, said ...*Retention) time.Duration {
	for _, r := range said {
		if ms := r.Of(s); ms != 0 {
			return time.Duration(ms) * time.Millisecond
		}
	}
	return DefaultRetentionTime
}
