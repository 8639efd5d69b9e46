package server

import (
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/router"
	"github.com/corvo/corvo/dataplane/view"
)

// The functions of this file find the job that a request names and decide whether the caller may see it.

// jobAt begins a read of the job in the path. It returns the job's id and the job's present or last shard, as
// fresh as the request asks. It refuses a malformed id with NOT_FOUND. It does not check that the job exists
// or that the caller's scope covers the job.
func (s *Server) jobAt(r *http.Request) (q request, id job.ID, at *cell.Cell, err error) {
	if q, err = s.begin(r, nil); err != nil {
		return q, id, nil, err
	}
	if id, err = job.ParseID(r.PathValue("id")); err != nil {
		return q, id, nil, noJob(r.PathValue("id"))
	}
	at, err = s.awaitJob(r, &q, id)
	return q, id, at, err
}

// lookUp parses a job's id and checks that the caller's scope covers the job. It answers NOT_FOUND for a
// malformed id and for a job in a queue outside the scope, so that a caller does not learn which jobs exist
// there. It does not check that the job exists, because the op or the read does. lookUp returns the record
// only if it had to read it: if wanted is set or the caller has a scope. The record is nil if this replica
// has no such job.
func (q *request) lookUp(r *http.Request, text string, wanted bool) (job.ID, *job.Job, error) {
	id, err := job.ParseID(text)
	if err != nil {
		return job.ID{}, nil, noJob(text)
	}
	if len(q.who.QueueScope) == 0 && !wanted {
		return id, nil, nil
	}
	j, err := q.record(r, id)
	if err != nil {
		return job.ID{}, nil, err
	}
	if j != nil && !q.who.Covers(j.Queue) {
		return job.ID{}, nil, noJob(id.String())
	}
	return id, j, nil
}

// record reads a job to check the caller's scope. It returns nil if there is no such job. A follower that
// does not know the job may be behind, so it catches up with the leader and reads again, unless the caller
// may see every queue.
func (q *request) record(r *http.Request, id job.ID) (*job.Job, error) {
	for sure := len(q.who.QueueScope) == 0; ; sure = true {
		at, err := q.shards.OfJob(id)
		if err != nil {
			return nil, err
		}
		j, err := at.State().Job(id)
		if err != nil || j != nil || sure || at.Leader() {
			return j, err
		}
		if err := at.Verify(r.Context()); err != nil {
			return nil, again(err)
		}
	}
}

// sees reports whether the caller's scope covers the job's queue. It returns true for a job that does not
// exist, because the code that uses the job reports that.
func (q *request) sees(r *http.Request, id job.ID) (bool, error) {
	if len(q.who.QueueScope) == 0 {
		return true, nil
	}
	j, err := q.record(r, id)
	return err == nil && (j == nil || q.who.Covers(j.Queue)), err
}

// mayStill reports whether the caller may act on a job that was found on another shard. For a caller with a
// scope it returns false if this node cannot read the job there.
func (q *request) mayStill(c *cell.Cell, id job.ID) bool {
	if len(q.who.QueueScope) == 0 {
		return true
	}
	j, err := c.State().Job(id)
	return err == nil && j != nil && q.who.Covers(j.Queue)
}

// seen returns the refusal for a caller who may not see the job j, or for a job that is absent (nil) or could
// not be read (err). It returns nil if the caller may see the job.
func (q *request) seen(r *http.Request, id job.ID, j *job.Job, err error) error {
	switch {
	case err != nil:
		return err
	case j == nil:
		return q.absent(r, id)
	case !q.who.Covers(j.Queue):
		return noJob(id.String())
	}
	return nil
}

// absent returns the reason why a job was not found: NOT_FOUND if it does not exist, or VIEW_BEHIND if it has
// left the shard that was read, or has not arrived at the next shard yet. A job that the caller may not see
// gets the same answer as one that does not exist.
func (q *request) absent(r *http.Request, id job.ID) error {
	at, by, err := q.shards.Follow(id)
	switch {
	case err != nil:
		return err
	case by == nil:
	case !q.who.Covers(by.Queue):
		return noJob(id.String())
	case !by.Over():
		return router.OnItsWay(id)
	default: // the job has arrived, but this node may not know that yet
		if err := at.Verify(r.Context()); err != nil {
			return again(err)
		}
	}
	if q.shards.Count() == 1 {
		return noJob(id.String())
	}
	// The job may have arrived, or moved on, between the first read and this one.
	now, err := q.shards.OfJob(id)
	if err != nil {
		return err
	}
	j, err := now.State().Job(id)
	switch {
	case err != nil:
		return err
	case j != nil && !q.who.Covers(j.Queue):
		return noJob(id.String())
	case j != nil || now != at:
		return router.OnItsWay(id)
	}
	return noJob(id.String())
}

// mustSee refuses an action on a job that was not found, if the caller has a scope, because the job may be on
// its way and reach a queue outside the scope before the op does. The repeat of a remembered request
// continues, because it gets the remembered answer.
func (q *request) mustSee(r *http.Request, id job.ID, j *job.Job, o op.Op) error {
	if len(q.who.QueueScope) == 0 || j != nil {
		return nil
	}
	for _, c := range q.shards.All() {
		if before, err := op.Remembered(c.State(), o, c.NowNs()); err != nil || before != nil {
			return err
		}
	}
	return q.absent(r, id)
}

// readJob reads the job's record and blobs from one snapshot. It returns nil if there is no such job.
func readJob(at *cell.Cell, id job.ID) (*api.Job, error) {
	snapshot := at.State().Snapshot()
	defer snapshot.Close()
	return view.Read(snapshot, id)
}

func noJob(id string) *api.Error {
	return api.Errorf(api.NotFound, "there is no job %s", text.Quote(id))
}
