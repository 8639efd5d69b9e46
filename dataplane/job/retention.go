package job

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

// DefaultRetention is that of a namespace that says nothing.
func DefaultRetention() *Retention {
	ms := DefaultRetentionTime.Milliseconds()
	return &Retention{CompletedMs: ms, DeadMs: ms, CancelledMs: ms}
}
