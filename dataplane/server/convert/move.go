package convert

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
)

// MoveJobBody is the body of POST /jobs/{id}/move.
type MoveJobBody struct {
	api.MoveJobRequest
	unbuiltMove
}

// FromMoveJob is the queue a job is to go to.
func FromMoveJob(f *Faults, b *MoveJobBody) string {
	b.unbuiltMove.report(f)
	if err := job.CheckQueueName(b.Queue); err != nil {
		f.Invalid("queue", "%v", err)
	}
	return b.Queue
}

// unbuiltMove are documented fields of a move that this server does not act on.
type unbuiltMove struct {
	ResetAttempts *bool `json:"reset_attempts"`
	KeepPriority  *bool `json:"keep_priority"`
}

// report names those that ask for something. A job keeps its priority anyway.
func (u *unbuiltMove) report(f *Faults) {
	if u.ResetAttempts != nil && *u.ResetAttempts {
		f.Unsupported("reset_attempts")
	}
	if u.KeepPriority != nil && !*u.KeepPriority {
		f.Unsupported("keep_priority")
	}
}
