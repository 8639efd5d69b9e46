package server

import (
	"fmt"
	"net/http"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// findDependencies sets the shard of each dependency of the new jobs: the shard that created the dependency.
// From there the ops find the dependency, even after a move, and check that it exists. A caller with a scope
// must see the dependencies and the parents that new jobs name, because the outcome of a hidden job is
// confidential, and because a job must not appear as the child of a job in a queue outside its creator's
// scope.
func (q *request) findDependencies(r *http.Request, jobs []*op.NewJob) error {
	for _, n := range jobs {
		if parent := n.Options.GetParentId(); len(parent) > 0 && len(q.who.QueueScope) > 0 {
			if err := q.mayName(r, job.ID(parent)); err != nil {
				return err
			}
		}
		for _, d := range n.DependsOn {
			id, err := job.IDFromBytes(d.JobId)
			if err != nil {
				return fmt.Errorf("depends_on: %w", err)
			}
			d.Shard = q.shards.Birth(id).Shard()
			if len(q.who.QueueScope) == 0 {
				continue
			}
			if err := q.mayName(r, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// mayName returns NOT_FOUND for a job in a queue outside the caller's scope. It also refuses a job that
// cannot be found, because that job may be in any queue.
func (q *request) mayName(r *http.Request, id job.ID) error {
	j, err := q.record(r, id)
	return q.seen(r, id, j, err)
}
