package view

import (
	"fmt"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
)

// enqueued fills in what a job's enqueue said of it, and why it is held.
func enqueued(doc *api.Job, j *job.Job) error {
	doc.UniqueKey = optional(j.UniqueKey)
	if j.UniqueKey != "" {
		seconds := j.UniquePeriodMs / time.Second.Milliseconds()
		doc.UniquePeriod = &seconds
	}
	doc.ExpireAt = optionalTime(j.ExpireNs)
	if j.ExpireAfterMs > 0 {
		after := api.DurationOf(time.Duration(j.ExpireAfterMs) * time.Millisecond)
		doc.ExpireAfter = &after
	}
	if len(j.ParentId) > 0 {
		parent, err := job.IDFromBytes(j.ParentId)
		if err != nil {
			return fmt.Errorf("parent of job number %d: %w", j.Number, err)
		}
		text := parent.String()
		doc.ParentID = &text
	}
	doc.HoldReason = optional(j.HoldReason)
	return nil
}
