package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/router"
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

// lease is a job that has been leased, and the shard it is on.
type lease struct {
	*op.Leased
	cell *cell.Cell
}

// lease waits until there is work and leases it; nothing when the time is over,
// the client is gone or the server drains. What it returns must be delivered or
// given back.
//
// The poll waits outside the cells and their logs: only one that has claimed a job
// proposes. It is woken by what makes a job fetchable, never by a clock.
func (s *Server) lease(w http.ResponseWriter, r *http.Request, q *request, ask *convert.Fetch, span *span) ([]lease, error) {
	if err := q.allow(tenancy.JobWork, ask.Queues...); err != nil {
		return nil, err
	}
	s.fetched(q, ask)
	// A repeat has its answer already: it must not wait for more work.
	if leased, err := q.leasedBefore(w, ask); len(leased) > 0 || err != nil {
		return leased, err
	}
	wait := patience{client: r.Context(), draining: s.draining, until: time.Now().Add(ask.Wait)}
	defer wait.end()
	runs := q.shards.Runs(ask.Queues)
	var failed error // of a shard that is not asked again
	for waited := false; ; {
		claims := claimRuns(runs, ask.Count)
		if len(claims) == 0 {
			if failed != nil {
				return nil, failed
			}
			if err := s.park(wait.context(), r, q, ask.Queues); err != nil {
				switch {
				case wait.context().Err() == nil:
					return nil, err
				case r.Context().Err() != nil:
					return nil, nil
				}
				// An earlier try of this fetch may have waited here too, got the job and
				// answered a connection that was gone.
				if _, err := s.stays(r, q.who, tenancy.JobWork, ask.Queues...); err != nil {
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
		leased, at, err := s.leaseClaimed(r, q, ask, claims, waited)
		switch {
		case len(leased) > 0:
			setIndex(w, at...)
			return leased, nil
		case err != nil:
			// A shard without a leader must not keep its worker from the others' jobs.
			if runs = without(runs, claims); len(runs) == 0 || !api.CodeOf(err).Retryable() {
				return nil, err
			}
			failed = err
		case wait.over():
			return nil, nil
		}
	}
}

// patience is how long a fetch waits for work: until its time is over, its client has
// left or the server drains. Most find work at once and never have its context made,
// which takes a timer and a place among what the client's leaving ends.
type patience struct {
	client, draining context.Context
	until            time.Time
	waiting          context.Context // nil until it is asked for
	stop             func()          // of waiting
}

// context ends with the patience.
func (p *patience) context() context.Context {
	if p.waiting == nil {
		ctx, cancel := context.WithDeadline(p.client, p.until)
		release := context.AfterFunc(p.draining, cancel)
		p.waiting, p.stop = ctx, func() { release(); cancel() }
	}
	return p.waiting
}

func (p *patience) over() bool {
	return p.client.Err() != nil || p.draining.Err() != nil || !time.Now().Before(p.until)
}

// end must be called once nobody waits any longer.
func (p *patience) end() {
	if p.stop != nil {
		p.stop()
	}
}

// claim is a run of queues that has jobs for a fetch.
type claim struct {
	router.Run
	count   int // of jobs to lease
	release func()
}

// claimRuns claims up to count jobs of the runs, in their order. A shard that has
// none is not asked.
func claimRuns(runs []router.Run, count int) (claims []claim) {
	for _, run := range runs {
		if count == 0 {
			break
		}
		if n, release := run.Cell.Claim(run.Items, count); n > 0 {
			claims = append(claims, claim{run, n, release})
			count -= n
		}
	}
	if len(claims) > 0 {
		claims[len(claims)-1].count += count // what comes meanwhile
	}
	return claims
}

// without are the runs of the shards that have not been claimed from.
func without(runs []router.Run, claims []claim) []router.Run {
	return slices.DeleteFunc(slices.Clone(runs), func(run router.Run) bool {
		return slices.ContainsFunc(claims, func(c claim) bool { return c.Cell == run.Cell })
	})
}

// leaseClaimed proposes the fetches and releases the claims, but proposes nothing
// for a caller that has left, or that may not have the jobs any more for which it waited. The
// leases come in the order of the queues; there may be some beside an error, for
// the shards decide each on its own.
func (s *Server) leaseClaimed(r *http.Request, q *request, ask *convert.Fetch, claims []claim, waited bool) (leased []lease, at []position, err error) {
	defer func() {
		for _, c := range claims {
			c.release()
		}
	}()
	if r.Context().Err() != nil {
		return nil, nil, nil
	}
	if waited {
		if _, err := s.stays(r, q.who, tenancy.JobWork, ask.Queues...); err != nil {
			return nil, nil, err
		}
	}
	if len(claims) == 1 {
		part, p, err := s.leaseFrom(r, q, ask, claims[0])
		return part, []position{p}, err
	}
	parts, positions := make([][]lease, len(claims)), make([]position, len(claims))
	err = router.Scatter(len(claims), func(i int) (err error) {
		parts[i], positions[i], err = s.leaseFrom(r, q, ask, claims[i])
		return err
	})
	for i, part := range parts {
		if len(part) > 0 {
			leased, at = append(leased, part...), later(at, positions[i])
		}
	}
	if err != nil && len(leased) > 0 {
		s.cfg.Logger.Warn("a fetch got nothing from one of its shards", "request_id", serve.RequestID(r.Context()), "error", err)
	}
	return leased, at, err
}

// leaseFrom proposes the fetch on one shard.
func (s *Server) leaseFrom(r *http.Request, q *request, ask *convert.Fetch, from claim) ([]lease, position, error) {
	o := ask.Op(&op.Meta{Principal: q.meta.Principal, LeaseSeed: from.Cell.LeaseSeed(), Idempotency: q.meta.Idempotency})
	o.Queues, o.Count = from.Items, uint32(from.count)
	// Once proposed, the commit is awaited even when the client leaves: only its
	// result says what must be given back.
	result, at, err := propose[*op.FetchResult](context.WithoutCancel(r.Context()), s, from.Cell, q.inTurn(o))
	if err != nil {
		return nil, position{}, err
	}
	jobs := result.GetJobs()
	if len(jobs) == 0 {
		s.emptyFetches.Add(1)
	}
	if q.meta.Idempotency != nil {
		// It may be the result of an earlier fetch with the same key.
		if jobs, err = current(from.Cell, jobs); err != nil {
			return nil, position{}, err
		}
	}
	leased := make([]lease, len(jobs))
	for i, l := range jobs {
		leased[i] = lease{l, from.Cell}
	}
	return leased, position{from.Cell.Shard(), at}, nil
}

// leasedBefore is what an earlier fetch with the same Idempotency-Key leased and
// this node knows of; nothing where there was none. A key is remembered on one
// shard, so a fetch with a key asks one.
func (q *request) leasedBefore(w http.ResponseWriter, ask *convert.Fetch) ([]lease, error) {
	if q.meta.Idempotency == nil {
		return nil, nil
	}
	at, err := q.together(ask.Queues, "a fetch with an Idempotency-Key is remembered on one shard")
	if err != nil {
		return nil, err
	}
	o := ask.Op(q.meta)
	before, err := op.Remembered(at.State(), o, at.NowNs())
	if err != nil {
		return nil, err
	}
	if before == nil {
		_, _, err := elsewhere[*op.FetchResult](q, at, o) // used for another request?
		return nil, err
	}
	result, ok := before.(*op.FetchResult)
	if !ok {
		return nil, fmt.Errorf("a fetch is remembered with a %T", before)
	}
	jobs, err := current(at, result.GetJobs())
	if err != nil {
		return nil, err
	}
	leased := make([]lease, len(jobs))
	for i, l := range jobs {
		leased[i] = lease{l, at}
	}
	setIndex(w, positionOf(at))
	return leased, nil
}

// current are those of the leases that still hold their jobs. An answer is
// remembered for a day, longer than most leases last, and some of its jobs may
// be done. LEASE_LOST when none is left.
func current(at *cell.Cell, leased []*op.Leased) ([]*op.Leased, error) {
	var held []*op.Leased
	for _, l := range leased {
		id, err := job.IDFromBytes(l.Id)
		if err != nil {
			return nil, fmt.Errorf("result of a fetch: %w", err)
		}
		j, err := at.State().Job(id)
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
