package server

import (
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/router"
	"github.com/corvo/corvo/dataplane/view"
)

func (s *Server) getJob(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	id, err := job.ParseID(r.PathValue("id"))
	if err != nil {
		return noJob(r.PathValue("id"))
	}
	at, err := s.awaitJob(r, &q, id)
	if err != nil {
		return err
	}
	doc, err := readJob(at, id)
	if err != nil {
		return err
	}
	if doc == nil {
		return q.absent(at, id)
	}
	if !q.who.Covers(doc.Queue) {
		return noJob(id.String())
	}
	return serve.WriteJSON(w, http.StatusOK, doc)
}

// readJob is the job's record and its blobs as of one moment; nil where there is
// none.
func readJob(at *cell.Cell, id job.ID) (*api.Job, error) {
	snapshot := at.State().Snapshot()
	defer snapshot.Close()
	return view.Read(snapshot, id)
}

// absent is why a job is not on a shard: there is none, or it has left that shard,
// or has not come to it yet.
func (q *request) absent(at *cell.Cell, id job.ID) error {
	now, err := q.shards.OfJob(id)
	switch {
	case err != nil:
		return err
	case now != at || now != q.shards.Birth(id):
		return router.OnItsWay(id)
	}
	return noJob(id.String())
}
