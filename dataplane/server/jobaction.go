package server

import (
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server/convert"
)

// These are the actions that a person takes on one job. Each proposes the op for a list of jobs, with a list
// that has only this job.

func (s *Server) retryJob(w http.ResponseWriter, r *http.Request) error {
	return s.onJob(w, r, &struct{}{}, convert.ToStatus, func(meta *op.Meta, ids [][]byte) (op.Op, error) {
		return &op.RetryJobs{Meta: meta, JobIds: ids}, nil
	})
}

func (s *Server) cancelJob(w http.ResponseWriter, r *http.Request) error {
	return s.onJob(w, r, &struct{}{}, convert.ToStatus, func(meta *op.Meta, ids [][]byte) (op.Op, error) {
		return &op.CancelJobs{Meta: meta, JobIds: ids}, nil
	})
}

func (s *Server) holdJob(w http.ResponseWriter, r *http.Request) error {
	var body api.ReasonRequest
	return s.onJob(w, r, &body, convert.ToStatus, func(meta *op.Meta, ids [][]byte) (op.Op, error) {
		var f convert.Faults
		return &op.HoldJobs{Meta: meta, JobIds: ids, Reason: convert.FromReason(&f, &body)}, f.Err()
	})
}

func (s *Server) approveJob(w http.ResponseWriter, r *http.Request) error {
	var body api.ApproveRequest
	return s.onJob(w, r, &body, convert.ToStatus, func(meta *op.Meta, ids [][]byte) (op.Op, error) {
		var f convert.Faults
		return &op.ReleaseJobs{Meta: meta, JobIds: ids, Changes: convert.FromApprove(&f, &body, s.maxPayload)}, f.Err()
	})
}

func (s *Server) rejectJob(w http.ResponseWriter, r *http.Request) error {
	var body api.ReasonRequest
	return s.onJob(w, r, &body, convert.ToStatus, func(meta *op.Meta, ids [][]byte) (op.Op, error) {
		var f convert.Faults
		return &op.RejectJobs{Meta: meta, JobIds: ids, Reason: convert.FromReason(&f, &body)}, f.Err()
	})
}

func (s *Server) deleteJob(w http.ResponseWriter, r *http.Request) error {
	return s.onJob(w, r, nil, convert.ToDeleted, func(meta *op.Meta, ids [][]byte) (op.Op, error) {
		return &op.DeleteJobs{Meta: meta, JobIds: ids}, nil
	})
}

// onJob proposes an op for the job in the path, on the shard that has the job, and answers with the status.
// build makes the op after the request has been decoded into body.
func (s *Server) onJob(w http.ResponseWriter, r *http.Request, body any, status func(*op.JobDone) api.Status, build func(meta *op.Meta, ids [][]byte) (op.Op, error)) error {
	q, err := s.begin(r, body)
	if err != nil {
		return err
	}
	id, j, err := q.lookUp(r, r.PathValue("id"), false)
	if err != nil {
		return err
	}
	o, err := build(q.meta, [][]byte{id[:]})
	if err != nil {
		return err
	}
	if err := q.mustSee(r, id, j, o); err != nil {
		return err
	}
	acted := &items[*op.JobDone]{
		ids: []job.ID{id},
		propose: func(c *cell.Cell, _ []int) ([]*op.JobDone, position, error) {
			result, at, err := proposeOnce[*op.JobsResult](s, r, &q, c, o)
			return result.GetItems(), at, err
		},
		refusal: (*op.JobDone).GetRefusal,
	}
	done, err := acted.one(w, r, &q)
	if err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, status(done))
}
