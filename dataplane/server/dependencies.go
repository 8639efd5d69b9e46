package server

import (
	"fmt"
	"net/http"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// findDependencies says where to ask for the jobs that new ones depend on: on the
// shard each was born on, from where the question follows it. Whether it is there
// the op finds out. Only who may not see every queue has to show first that they see
// those jobs: how a job of others ends is theirs to know.
func (q *request) findDependencies(r *http.Request, jobs []*op.NewJob) error {
	for _, n := range jobs {
		for _, d := range n.DependsOn {
			id, err := job.IDFromBytes(d.JobId)
			if err != nil {
				return fmt.Errorf("depends_on: %w", err)
			}
			d.Shard = q.shards.Birth(id).Shard()
			if len(q.who.QueueScope) == 0 {
				continue
			}
			if err := q.mayDependOn(r, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// mayDependOn refuses a job that is not in a queue the caller sees, and one that is
// nowhere to be seen: it may be in any queue.
func (q *request) mayDependOn(r *http.Request, id job.ID) error {
	j, err := q.record(r, id)
	return q.seen(r, id, j, err)
}
