package convert

import (
	"encoding/json"

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

// unbuiltMove are fields not built of a move.
type unbuiltMove struct {
	ResetAttempts json.RawMessage `json:"reset_attempts"`
	KeepPriority  json.RawMessage `json:"keep_priority"`
}

// report names those that ask for something. A job keeps its priority anyway.
func (u *unbuiltMove) report(f *Faults) {
	reportSet(f, []rawField{{"reset_attempts", u.ResetAttempts}})
	if !Absent(u.KeepPriority) && !says(u.KeepPriority) && string(u.KeepPriority) != `""` {
		f.Unsupported("keep_priority")
	}
}
