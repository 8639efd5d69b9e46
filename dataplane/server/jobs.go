package server

import (
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/router"
	"github.com/corvo/corvo/dataplane/view"
)

func (s *Server) getJob(w http.ResponseWriter, r *http.Request) error {
	q, id, at, err := s.jobAt(r)
	if err != nil {
		return err
	}
	doc, err := readJob(at, id)
	if err != nil {
		return err
	}
	if doc == nil {
		return q.absent(r, id)
	}
	if !q.who.Covers(doc.Queue) {
		return noJob(id.String())
	}
	return serve.WriteJSON(w, http.StatusOK, doc)
}

// jobAt begins a read of the job in the path: its id, and the shard that it is on or
// was last, as fresh as the request asks.
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

// readJob is the job's record and its blobs as of one moment; nil where there is
// none.
func readJob(at *cell.Cell, id job.ID) (*api.Job, error) {
	snapshot := at.State().Snapshot()
	defer snapshot.Close()
	return view.Read(snapshot, id)
}

// seen is why the caller may not be shown a job that was looked for and found, or not,
// or that it could not be looked for; nil where they may.
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

// absent is why a job was not found: there is none, or it has left the shard where
// it was looked for, or has not come to the next yet. What the caller may not see is
// not there either.
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
	default: // it has arrived, and this node may not have heard of that
		if err := at.Verify(r.Context()); err != nil {
			return again(err)
		}
	}
	if q.shards.Count() == 1 {
		return noJob(id.String())
	}
	// Between the look for it and this one it may have come, or gone on.
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

// mustSee refuses what is asked of a job, j, that is nowhere to be seen, to who may
// not see every queue: the job may be on its way, and come to a queue that is not
// theirs before the op does. The repeat of a request that is remembered goes on.
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
