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

// handOut leases jobs and delivers them, in one span. begun reports whether it leased jobs and therefore
// began to deliver them; the delivery may have failed. A poll that found nothing drops its span and the
// request's span, unless it proposed a fetch or a client traces it, because the polls of idle workers would
// fill every trace store.
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

// lease is a leased job and its shard.
type lease struct {
	*op.Leased
	cell *cell.Cell
}

// lease waits for work and leases it. It returns no jobs if the fetch deadline passes, the client leaves or
// the server drains. At the deadline or the drain it still returns jobs that an earlier try with the same
// Idempotency-Key leased. The caller must deliver the jobs or give them back.
//
// lease waits in the host and not in a cell, and it proposes only after it has claimed a job. The event that
// makes a job ready wakes lease, which never checks by a timer.
func (s *Server) lease(w http.ResponseWriter, r *http.Request, q *request, ask *convert.Fetch, span *span) ([]lease, error) {
	if err := q.allow(tenancy.JobWork, ask.Queues...); err != nil {
		return nil, err
	}
	s.fetched(q, ask)
	// If an earlier try leased jobs, this one must not wait for more.
	if leased, err := q.leasedBefore(w, ask); len(leased) > 0 || err != nil {
		return leased, err
	}
	deadline := fetchDeadline{client: r.Context(), draining: s.draining, until: time.Now().Add(ask.Wait)}
	defer deadline.end()
	runs := q.shards.Runs(ask.Queues)
	var failed error // the error of a shard that is not asked again
	for waited := false; ; {
		claims := claimRuns(runs, ask.Count)
		if len(claims) == 0 {
			if failed != nil {
				return nil, failed
			}
			if err := s.park(deadline.context(), r, q, ask.Queues); err != nil {
				switch {
				case deadline.context().Err() == nil:
					return nil, err
				case r.Context().Err() != nil:
					return nil, nil
				}
				// An earlier try of this fetch may have waited here too, leased jobs and answered a closed
				// connection.
				if _, err := s.stays(r, q.who, tenancy.JobWork, ask.Queues...); err != nil {
					return nil, err
				}
				return q.leasedBefore(w, ask)
			}
			// A woken poll must claim, because it may be the only one that was notified of the job. When it
			// releases the claim, other polls are notified of the jobs that it did not use.
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
			// A shard without a leader must not keep a worker from the jobs of other shards.
			if runs = without(runs, claims); len(runs) == 0 || !api.CodeOf(err).Retryable() {
				return nil, err
			}
			failed = err
		case deadline.passed():
			return nil, nil
		}
	}
}

// fetchDeadline ends the wait of a fetch when its time is over, its client leaves or the server drains. Most
// fetches find work at once and never create the context, which costs a timer and a registration with the
// client's context.
type fetchDeadline struct {
	client, draining context.Context
	until            time.Time
	waiting          context.Context // nil until context is called
	stop             func()          // stops waiting
}

// context returns a context that ends when the wait ends.
func (d *fetchDeadline) context() context.Context {
	if d.waiting == nil {
		ctx, cancel := context.WithDeadline(d.client, d.until)
		release := context.AfterFunc(d.draining, cancel)
		d.waiting, d.stop = ctx, func() { release(); cancel() }
	}
	return d.waiting
}

func (d *fetchDeadline) passed() bool {
	return d.client.Err() != nil || d.draining.Err() != nil || !time.Now().Before(d.until)
}

// end releases the context. It must be called when the wait is over.
func (d *fetchDeadline) end() {
	if d.stop != nil {
		d.stop()
	}
}

// claim is a run of queues on one shard with claimed jobs.
type claim struct {
	router.Run
	count   int // most jobs to lease
	release func()
}

// claimRuns claims up to count jobs of the runs, in their order. It skips shards without unclaimed ready
// jobs. The caller must release each claim.
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
		claims[len(claims)-1].count += count // for jobs that become ready in the meantime
	}
	return claims
}

// without returns the runs of the shards without a claim.
func without(runs []router.Run, claims []claim) []router.Run {
	return slices.DeleteFunc(slices.Clone(runs), func(run router.Run) bool {
		return slices.ContainsFunc(claims, func(c claim) bool { return c.Cell == run.Cell })
	})
}

// leaseClaimed proposes the fetches and releases the claims. It proposes nothing if the caller has left or
// has lost the right to the jobs while it waited. The leases are in the order of the queues. Leases and an
// error may come together, because each shard decides independently.
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
		s.cfg.Logger.Warn("a shard failed to answer a fetch; the other shards' jobs were delivered", "request_id", serve.RequestID(r.Context()), "error", err)
	}
	return leased, at, err
}

// leaseFrom proposes the fetch on one shard.
func (s *Server) leaseFrom(r *http.Request, q *request, ask *convert.Fetch, from claim) ([]lease, position, error) {
	o := ask.Op(&op.Meta{Principal: q.meta.Principal, LeaseSeed: from.Cell.LeaseSeed(), Idempotency: q.meta.Idempotency})
	o.Queues, o.Count = from.Items, uint32(from.count)
	// Once proposed, the commit is awaited even if the client leaves, at most ProposeTimeout, because only
	// its result says which jobs to give back.
	result, at, err := propose[*op.FetchResult](context.WithoutCancel(r.Context()), s, from.Cell, q.ordered(o))
	if err != nil {
		return nil, position{}, err
	}
	jobs := result.GetJobs()
	if len(jobs) == 0 {
		s.emptyFetches.Add(1)
	}
	if q.meta.Idempotency != nil {
		// The result may come from an earlier fetch with the same key.
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

// leasedBefore returns the jobs that an earlier fetch with the same Idempotency-Key leased and that still
// have these leases, as far as this node knows. If there were leases and all have ended, the error is
// LEASE_LOST. A key is remembered on one shard, so the error is CROSS_SHARD if the queues lie on several.
// Without a key leasedBefore returns nothing.
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
		_, _, err := rememberedElsewhere[*op.FetchResult](q, at, o) // refuses a key that was used for another request
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

// current returns the leases that still hold their jobs. An answer is remembered for a day, longer than most
// leases, so some of its leases may have expired and some of its jobs may have settled. If there were leases
// and none is left, the error is LEASE_LOST.
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
