package server

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/tenancy"
)

// mayChain checks the right to enqueue to the queue of each step, including the failure and exit steps, and
// sets each step's shard. It allows a nil chain.
func (q *request) mayChain(c *job.Chain) error {
	if c == nil {
		return nil
	}
	for _, step := range append([]*job.Step{c.Failure, c.Exit}, c.Steps...) {
		if step == nil {
			continue
		}
		if err := q.allow(tenancy.JobEnqueue, step.Queue); err != nil {
			return err
		}
		step.Shard = q.shards.Of(step.Queue).Shard()
	}
	return nil
}
