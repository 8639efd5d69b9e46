package server

import (
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/server/convert"
)

// getJobs returns jobs by their ids, in the order of the request. It reads them from the stores, because a
// view may lag behind its store. It leaves out texts that are no job ids, jobs that do not exist or are
// moving to another shard, and jobs of queues that the caller may not see, and gives no reason for any of
// them. If the jobs' documents have more than job.MaxBulkGetBytes, it answers PAYLOAD_TOO_LARGE.
func (s *Server) getJobs(w http.ResponseWriter, r *http.Request) error {
	var body api.BulkGetRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	var f convert.Faults
	ids := convert.FromJobIDs(&f, body.JobIDs)
	if err := f.Err(); err != nil {
		return err
	}
	if err := s.awaitState(r, &q, q.shards.All()...); err != nil {
		return err
	}
	out := api.BulkGetResponse{Jobs: []api.Job{}}
	size := 0
	for _, id := range ids {
		if id == nil {
			continue
		}
		at, err := q.shards.OfJob(*id)
		if err != nil {
			return err
		}
		doc, err := readJob(at, *id)
		if err != nil {
			return err
		}
		if doc == nil || !q.who.Covers(doc.Queue) {
			continue
		}
		if size += len(doc.Payload) + len(doc.Result) + len(doc.Checkpoint); size > job.MaxBulkGetBytes {
			return api.Errorf(api.PayloadTooLarge, "these jobs have more than %d MiB: ask for fewer at once", job.MaxBulkGetBytes>>20)
		}
		out.Jobs = append(out.Jobs, *doc)
	}
	return serve.WriteJSON(w, http.StatusOK, out)
}
