package convert

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// FromMoveJob builds the op that moves a job. The caller adds Meta, the job's id and the shard of the queue.
func FromMoveJob(f *Faults, b *api.MoveJobRequest) *op.MoveJobs {
	if err := job.CheckQueueName(b.Queue); err != nil {
		f.Invalid("queue", "%v", err)
	}
	return &op.MoveJobs{Queue: b.Queue, ResetAttempts: b.ResetAttempts, DropPriority: b.KeepPriority != nil && !*b.KeepPriority}
}
