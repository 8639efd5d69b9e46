package server

import (
	"fmt"
	"net/http"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// findDependencies says where to ask for the jobs that new ones depend on: on the
// shard each was born on, from where the question follows it. Whether it is there
// the op finds out. A caller who may not see every queue has to see those jobs, and
// the parents that new jobs name: how a job of others ends is theirs to know, and a
// job must not pass for the child of one in a queue that is out of its maker's reach.
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

// mayName refuses a job that is not in a queue the caller sees, and one that is
// nowhere to be seen: it may be in any queue.
func (q *request) mayName(r *http.Request, id job.ID) error {
	j, err := q.record(r, id)
	return q.seen(r, id, j, err)
}
