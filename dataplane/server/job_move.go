package server

import (
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/tenancy"
)

// moveJob moves a job to another queue, on any shard. The caller needs the right to both queues, because the
// job leaves one queue and the workers of the other will run it.
func (s *Server) moveJob(w http.ResponseWriter, r *http.Request) error {
	var body api.MoveJobRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	id, err := job.ParseID(r.PathValue("id"))
	if err != nil {
		return noJob(r.PathValue("id"))
	}
	var f convert.Faults
	move := convert.FromMoveJob(&f, &body)
	if err := f.Err(); err != nil {
		return err
	}
	if err := q.mayMove(r, id, move.Queue); err != nil {
		return err
	}
	moved := &items[*op.Refusal]{
		ids: []job.ID{id},
		propose: func(c *cell.Cell, _ []int) ([]*op.Refusal, position, error) {
			move.Meta, move.JobIds, move.Shard = q.meta, [][]byte{id[:]}, q.shards.Of(move.Queue).Shard()
			result, at, err := proposeOnce[*op.MoveJobsResult](s, r, &q, c, move)
			return result.GetItems(), at, err
		},
		refusal: refusalItself,
	}
	if _, err := moved.one(w, r, &q); err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, api.Status{Status: "moved"})
}

// mayMove checks the right to the job's present queue, as far as this node knows it, and to the target queue.
// The error is CONFLICT if the target queue is being deleted. If the caller has a scope, mayMove also refuses
// a job that it does not find, unless the request repeats a remembered one.
func (q *request) mayMove(r *http.Request, id job.ID, queue string) error {
	j, err := q.record(r, id)
	if err != nil {
		return err
	}
	if j != nil && !q.who.Covers(j.Queue) {
		return noJob(id.String())
	}
	if err := q.allow(tenancy.JobManage, queue); err != nil {
		return err
	}
	if err := q.mustSee(r, id, j, &op.MoveJobs{Meta: q.meta}); err != nil {
		return err
	}
	// The target's shard cannot refuse a job from another shard, so mayMove checks the queue before the move.
	to, err := queueRecord(q.shards.Of(queue), queue)
	if err == nil && to.GetDeleting() {
		err = api.Errorf(api.Conflict, "queue %s is being deleted: wait for the end of the deletion, then create it again", queue)
	}
	return err
}
