package server

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
)

// A page of iterations has at most maxIterationPage entries. It also ends after the entry whose documents
// fill iterationPageBytes.
const (
	maxIterationPage   = 1000
	iterationPageBytes = 8 << 20
)

var iterationPage = append([]serve.Param{
	{Name: "after", Doc: "number of the iteration to start after"},
	{Name: "limit", Doc: "iterations on a page, from 1 to 1000; default 1000"},
}, read...)

func (s *Server) listIterations(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	after, err := number(query, "after", 0, 0, job.MaxIterations+1)
	if err != nil {
		return err
	}
	limit, err := number(query, "limit", maxIterationPage, 1, maxIterationPage)
	if err != nil {
		return err
	}
	return s.readOfJob(w, r, func(v *state.Snapshot, id job.ID) (any, error) {
		page, size := api.Iterations{Iterations: []api.Iteration{}}, uint64(0)
		for it, err := range v.Iterations(id, uint32(after)) {
			if err != nil {
				return nil, err
			}
			if len(page.Iterations) == limit || size >= iterationPageBytes {
				page.HasMore = true
				break
			}
			shown, err := convert.ToIteration(v, id, it)
			if err != nil {
				return nil, err
			}
			size += it.DocumentBytes()
			page.Iterations = append(page.Iterations, shown)
		}
		return page, nil
	})
}

func (s *Server) listScores(w http.ResponseWriter, r *http.Request) error {
	return s.readOfJob(w, r, func(v *state.Snapshot, id job.ID) (any, error) {
		scores, err := v.Scores(id)
		return convert.ToScores(scores), err
	})
}

// readOfJob calls say with one snapshot of the job's store and writes the answer that say returns. The error
// is NOT_FOUND if the job does not exist or lies in a queue outside the caller's scope, and VIEW_BEHIND if
// the job is moving to another shard.
func (s *Server) readOfJob(w http.ResponseWriter, r *http.Request, say func(v *state.Snapshot, id job.ID) (any, error)) error {
	q, id, at, err := s.jobAt(r)
	if err != nil {
		return err
	}
	v := at.State().Snapshot()
	defer v.Close()
	j, err := v.Job(id)
	if err := q.seen(r, id, j, err); err != nil {
		return err
	}
	answer, err := say(v, id)
	if err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, answer)
}

// number parses a query parameter that is a whole number from least to most. It returns absent if the
// parameter is missing or empty, and refuses anything else with VALIDATION_ERROR.
func number(query url.Values, name string, absent, least, most int) (int, error) {
	given := query.Get(name)
	if given == "" {
		return absent, nil
	}
	n, err := strconv.Atoi(given)
	if err != nil || n < least || n > most {
		return 0, api.Errorf(api.ValidationError, "%s %s: it takes %d to %d", name, text.Quote(given), least, most)
	}
	return n, nil
}

func (s *Server) replayJob(w http.ResponseWriter, r *http.Request) error {
	var body api.ReplayRequest
	q, at, j, err := s.managed(r, &body)
	if err != nil {
		return err
	}
	var f convert.Faults
	o := convert.FromReplay(&f, job.ID(j.Id), at.NewID(j.Queue), &body, q.meta)
	if err := f.Err(); err != nil {
		return err
	}
	made, err := commit[*op.ReplayJobResult](s, w, r, &q, at, o)
	if err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusCreated, api.EnqueueResponse{JobID: job.ID(made.Id).String(), Status: job.Pending.Word()})
}

func (s *Server) scoreJob(w http.ResponseWriter, r *http.Request) error {
	var body api.ScoreRequest
	q, at, j, err := s.managed(r, &body)
	if err != nil {
		return err
	}
	var f convert.Faults
	o := convert.FromScore(&f, job.ID(j.Id), &body, q.meta)
	if err := f.Err(); err != nil {
		return err
	}
	if _, err := commit[*op.ScoreJobResult](s, w, r, &q, at, o); err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, ok)
}

// managed begins a change of the job in the path. It decodes the request into body, waits until this node has
// every write acknowledged before the request, and returns the job and its shard. It refuses a caller who may
// not manage the job's queue.
func (s *Server) managed(r *http.Request, body any) (q request, at *cell.Cell, j *job.Job, err error) {
	if q, err = s.begin(r, body); err != nil {
		return q, nil, nil, err
	}
	id, err := job.ParseID(r.PathValue("id"))
	if err != nil {
		return q, nil, nil, noJob(r.PathValue("id"))
	}
	if at, err = q.shards.OfJob(id); err != nil {
		return q, nil, nil, err
	}
	if err = s.awaitPresent(r, &q, at); err != nil {
		return q, nil, nil, err
	}
	j, err = at.State().Job(id)
	if err := q.seen(r, id, j, err); err != nil {
		return q, nil, nil, err
	}
	return q, at, j, q.allow(tenancy.JobManage, j.Queue)
}
