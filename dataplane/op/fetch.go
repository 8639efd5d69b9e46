package op

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// Fetch leases up to count jobs to a worker, from the queues in the given order, and within each queue in the
// order of Tx.NextReady: by lane, priority and age. Unknown queues, queues without ready jobs, and queues
// that are paused, being deleted, or at their concurrency or rate limit give nothing. A fetch that finds
// nothing is not refused, and its idempotency key is not remembered. The repeat of a fetch that found jobs,
// recognised by its key, gets the leases of the first answer, whatever has happened to them since: see
// Leased.Current.
//
// A repeated Fetch, recognised by its seed, gets those of its leases that are current and takes no more jobs.
// If none is current, the repeat is applied as a new fetch. Its sender has never seen a token, so the leases
// have ended without the sender, and other workers may have the jobs.
//
// A job that has reached its expiry is ended instead of leased, without waiting for the duty. A job that a
// check keeps back (see Decide) is parked, held or rejected. One fetch ends, parks, holds and rejects at most
// job.MaxDutyItems jobs, as one op of a duty would, because it could otherwise go through a whole backlog. In
// a full entry it stops after the first job that it does not lease.

// Validate refuses an op that no state could accept.
func (o *Fetch) Validate() error {
	var p problems
	o.Meta.check(&p)
	if n := len(o.GetMeta().GetLeaseSeed()); n != seedSize {
		p.add("meta.lease_seed", fmt.Errorf("has %d bytes; a seed has %d", n, seedSize))
	}
	p.length("queues", len(o.Queues), job.MaxFetchQueues)
	if len(o.Queues) <= job.MaxFetchQueues {
		for i, queue := range o.Queues {
			p.item("queues", i, "", job.CheckStoredQueueName(queue))
		}
	}
	if o.Count < 1 || o.Count > job.MaxFetchJobs {
		p.add("count", fmt.Errorf("is %d; fetch from 1 to %d jobs", o.Count, job.MaxFetchJobs))
	}
	p.add("worker_id", job.CheckText(o.WorkerId, job.MaxWorkerID))
	p.add("hostname", job.CheckText(o.Hostname, job.MaxWorkerID))
	p.add("lease_duration", job.CheckLeaseLength(o.LeaseMs))
	return p.err()
}

// Apply leases the jobs. It refuses nothing.
func (o *Fetch) Apply(tx *state.Tx) (*FetchResult, error) {
	var room [fewLeases]token
	tokens := o.tokens(room[:0])
	result, err := o.earlier(tx, tokens)
	if err != nil || len(result.Jobs) > 0 {
		return result, err
	}
	aside := 0
	for _, queue := range o.Queues {
		for len(result.Jobs) < int(o.Count) && aside < job.MaxDutyItems && mayFetch(tx.Queue(queue), tx.ClockNs()) {
			id, ok, err := tx.NextReady(queue)
			if err != nil {
				return nil, err
			}
			if !ok {
				break
			}
			leased, err := o.lease(tx, id, tokens[len(result.Jobs)])
			if err != nil {
				return nil, err
			}
			if leased == nil {
				if aside++; tx.Full() {
					return result, nil // the next fetch looks at the others
				}
				continue
			}
			if result.Jobs == nil {
				result.Jobs = make([]*Leased, 0, min(o.Count, fewLeases))
			}
			result.Jobs = append(result.Jobs, leased)
		}
	}
	return result, nil
}

type token = [job.TokenSize]byte

// fewLeases is the number of leases that most fetches do not exceed.
const fewLeases = 64

// tokens appends the tokens for the leases that the fetch may grant.
func (o *Fetch) tokens(to []token) []token {
	for i := range int(o.Count) {
		to = append(to, leaseToken(o.GetMeta().GetLeaseSeed(), i))
	}
	return to
}

// earlier returns the current leases that this op granted when it was applied before, in the order of the
// grants. The tokens derive from the op's seed. A first fetch pays a hash and a lookup for each job that it
// asks for.
func (o *Fetch) earlier(tx *state.Tx, tokens []token) (*FetchResult, error) {
	result := &FetchResult{}
	for _, t := range tokens {
		id, ok := tx.Leased(t)
		if !ok {
			continue
		}
		j, err := tx.Job(id)
		if err != nil {
			return nil, err
		}
		if j == nil {
			return nil, fmt.Errorf("job %s is leased but has no record", id)
		}
		result.Jobs = append(result.Jobs, leased(j))
	}
	return result, nil
}

// leased builds a fetch's answer for an active job.
func leased(j *job.Job) *Leased {
	return &Leased{Id: j.Id, Attempt: j.Attempt, LeaseToken: j.Lease.GetToken(), ExpiresNs: j.Lease.GetExpiresNs()}
}

// didNothing reports whether the fetch found nothing.
func (r *FetchResult) didNothing() bool { return len(r.Jobs) == 0 }

// Current reports whether the lease still holds j, the job's record. A nil job has no lease.
func (l *Leased) Current(j *job.Job) bool {
	return j.GetState() == job.Active && job.ProvesLease(j, l.LeaseToken, "")
}

// lease leases a ready job to the worker under the token. It returns nil for a job that it ends, parks, holds
// or rejects instead.
func (o *Fetch) lease(tx *state.Tx, id job.ID, t token) (*Leased, error) {
	j, err := tx.Job(id)
	if err != nil {
		return nil, err
	}
	if j == nil {
		return nil, fmt.Errorf("job %s is ready but has no record", id)
	}
	if timeIsOver(tx, j) {
		return nil, expireJob(tx, j)
	}
	if governed(tx, j) {
		v, err := decide(tx, j)
		if err != nil {
			return nil, err
		}
		if v.Do != Take {
			return nil, v.follow(tx, j)
		}
	}
	to, ok := job.Transition(j.State, job.OnFetch)
	if !ok {
		return nil, fmt.Errorf("job %s is ready but %s", id, j.State.Word())
	}
	j.State = to
	j.Attempt++
	j.StartedNs = tx.ClockNs()
	g := &newLease{token: t} // the job's lease and the answer at once
	g.lease.Token, g.lease.ExpiresNs, g.lease.LengthMs = g.token[:], leaseEnd(tx, j, o.LeaseMs), o.LeaseMs
	g.lease.WorkerId, g.lease.Hostname = o.WorkerId, o.Hostname
	j.Lease = &g.lease
	// A job that is returned undelivered stays counted, because a worker may have begun it.
	tx.EnsureQueue(j.Queue).CountRate(tx.ClockNs())
	if err := reserveAttempt(tx, j); err != nil {
		return nil, err
	}
	if err := tx.PutJob(j, state.EventType_EVENT_STARTED); err != nil {
		return nil, err
	}
	g.leased.Id, g.leased.Attempt, g.leased.LeaseToken, g.leased.ExpiresNs = j.Id, j.Attempt, g.token[:], g.lease.ExpiresNs
	return &g.leased, nil
}

// newLease holds a fetched job's lease, its answer and its token, so that one allocation serves all three.
type newLease struct {
	lease  job.Lease
	leased Leased
	token  token
}
