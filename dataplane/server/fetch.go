package server

import (
	"context"
	"fmt"
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/tenancy"
)

func (s *Server) fetch(w http.ResponseWriter, r *http.Request) error {
	var body api.FetchRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	var f convert.Faults
	ask := convert.FromFetch(&f, &body)
	if err := f.Err(); err != nil {
		return err
	}
	if begun, err := s.handOut(w, r, &q, &ask, false); begun || err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) fetchBatch(w http.ResponseWriter, r *http.Request) error {
	var body api.FetchBatchRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	var f convert.Faults
	ask := convert.FromFetchBatch(&f, &body)
	if err := f.Err(); err != nil {
		return err
	}
	if begun, err := s.handOut(w, r, &q, &ask, true); begun || err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, api.FetchBatchResponse{Jobs: []api.FetchedJob{}})
}

// handOut leases jobs and delivers them, in one span; begun says whether it
// has begun to answer. A poll that found nothing leaves no span, not the request's
// either, unless somebody follows it: idle workers would fill every trace store.
func (s *Server) handOut(w http.ResponseWriter, r *http.Request, q *request, ask *convert.Fetch, batch bool) (begun bool, err error) {
	r, span := q.beginSpan(r, telemetry.SpanFetch, telemetry.OperationReceive)
	if len(ask.Queues) == 1 {
		span.queue(ask.Queues[0])
	}
	leased, err := s.lease(w, r, q, ask, span)
	switch {
	case err != nil:
		span.end(err)
		return false, err
	case len(leased) > 0:
		if batch {
			span.batch(len(leased))
		}
		err = s.deliver(w, r, q, ask, leased, batch, span)
		span.end(err)
		return true, err
	case span.wanted(r):
		if batch {
			span.batch(0)
		}
		span.end(nil)
	default:
		serve.DropSpan(r.Context())
	}
	return false, nil
}

// lease waits until there is work and leases it; nothing when the time is over,
// the client is gone or the server drains. What it returns must be delivered or
// given back.
//
// The poll waits outside the cell and the log: only one that has claimed a job
// proposes. It is woken by what makes a job fetchable, never by a clock.
func (s *Server) lease(w http.ResponseWriter, r *http.Request, q *request, ask *convert.Fetch, span *span) ([]*op.Leased, error) {
	if err := q.allow(tenancy.JobWork, ask.Queues...); err != nil {
		return nil, err
	}
	// A repeat has its answer already: it must not wait for more work.
	if leased, err := q.leasedBefore(w, ask); len(leased) > 0 || err != nil {
		return leased, err
	}
	wait, cancel := context.WithTimeout(r.Context(), ask.Wait)
	defer cancel()
	defer context.AfterFunc(s.draining, cancel)()
	for waited := false; ; {
		release, ok := q.cell.Claim(ask.Queues, ask.Count)
		if !ok {
			if err := s.park(wait, r, q, ask.Queues); err != nil {
				switch {
				case wait.Err() == nil:
					return nil, err
				case r.Context().Err() != nil:
					return nil, nil
				}
				// An earlier try of this fetch may have waited here too, got the job and
				// answered a connection that was gone.
				if _, err := s.authenticate(r); err != nil {
					return nil, err
				}
				return q.leasedBefore(w, ask)
			}
			// Being woken is a duty: this poll may be the only one that knows of the
			// job. It claims, and releasing the claim hands on what it did not use.
			waited = true
			continue
		}
		span.keep()
		leased, at, err := s.leaseClaimed(r, q, ask, waited)
		release()
		switch {
		case err != nil:
			return nil, err
		case len(leased) > 0:
			setIndex(w, at)
			return leased, nil
		case wait.Err() != nil:
			return nil, nil
		}
	}
}

// leaseClaimed proposes the fetch, but not for a caller that has left, or whose
// key has been revoked while it waited.
func (s *Server) leaseClaimed(r *http.Request, q *request, ask *convert.Fetch, waited bool) ([]*op.Leased, cell.Index, error) {
	if r.Context().Err() != nil {
		return nil, 0, nil
	}
	if waited {
		if _, err := s.authenticate(r); err != nil {
			return nil, 0, err
		}
	}
	meta := &op.Meta{Principal: q.meta.Principal, LeaseSeed: q.cell.LeaseSeed(), Idempotency: q.meta.Idempotency}
	// Once proposed, the commit is awaited even when the client leaves: only its
	// result says what must be given back.
	result, at, err := propose[*op.FetchResult](context.WithoutCancel(r.Context()), s, q.cell, ask.Op(meta))
	if err == nil && len(result.GetJobs()) == 0 {
		s.emptyFetches.Add(1)
	}
	if err != nil || meta.Idempotency == nil {
		return result.GetJobs(), at, err
	}
	// It may be the result of an earlier fetch with the same key.
	leased, err := q.current(result.GetJobs())
	return leased, at, err
}

// leasedBefore is what an earlier fetch with the same Idempotency-Key leased and
// this node knows of; nothing where there was none.
func (q *request) leasedBefore(w http.ResponseWriter, ask *convert.Fetch) ([]*op.Leased, error) {
	before, err := op.Remembered(q.cell.State(), ask.Op(q.meta), q.cell.NowNs())
	if before == nil || err != nil {
		return nil, err
	}
	result, ok := before.(*op.FetchResult)
	if !ok {
		return nil, fmt.Errorf("a fetch is remembered with a %T", before)
	}
	leased, err := q.current(result.GetJobs())
	if err == nil {
		setIndex(w, q.cell.Applied())
	}
	return leased, err
}

// current are those of the leases that still hold their jobs. An answer is
// remembered for a day, longer than most leases last, and some of its jobs may
// be done. LEASE_LOST when none is left.
func (q *request) current(leased []*op.Leased) ([]*op.Leased, error) {
	var held []*op.Leased
	for _, l := range leased {
		id, err := job.IDFromBytes(l.Id)
		if err != nil {
			return nil, fmt.Errorf("result of a fetch: %w", err)
		}
		j, err := q.cell.State().Job(id)
		if err != nil {
			return nil, err
		}
		if l.Current(j) {
			held = append(held, l)
		}
	}
	if len(leased) > 0 && len(held) == 0 {
		return nil, api.Errorf(api.LeaseLost, "the jobs fetched with this Idempotency-Key have gone back to their queues or were settled: use a new key to fetch others")
	}
	return held, nil
}
