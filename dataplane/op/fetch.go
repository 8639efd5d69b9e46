package op

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// Fetch leases up to count jobs to a worker, from the queues in the order given,
// within each in the order of priority and age. Paused, full, empty and unknown
// queues give nothing; a fetch that finds nothing is no refusal, and its
// idempotency key is not remembered. The repeat of one that found something, known
// by its key, answers the same leases, whatever became of them: see
// Leased.Current.
//
// A repeated Fetch, known by its seed, answers those of its leases that are
// current and takes no job besides. When none is left it is as good as new: who
// repeats has never seen a token, so the leases have run out, and the jobs may
// long be with others.
//
// A job whose time is over is ended instead of leased, before the duty comes by, and
// one that something keeps (see Decide) is put aside: so many at most as a duty would,
// or one fetch could go through a whole backlog.

// Number is Fetch's number in the log.
func (*Fetch) Number() entry.Number { return numFetch }

// Class is Fetch's place among waiting proposals.
func (*Fetch) Class() pipeline.Class { return table[numFetch].Class }

// Validate refuses what no state could accept.
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

// token is the token of a lease.
type token = [job.TokenSize]byte

// fewLeases is how many leases most fetches grant at most.
const fewLeases = 64

// tokens appends the tokens of the leases that the fetch may grant.
func (o *Fetch) tokens(to []token) []token {
	for i := range int(o.Count) {
		to = append(to, leaseToken(o.GetMeta().GetLeaseSeed(), i))
	}
	return to
}

// earlier is what this op's own earlier effect has left: the current leases whose
// tokens come from its seed, in the order in which they were granted. A first
// fetch pays a hash and a look-up for each job it asks for.
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

// leased is what a fetch says of an active job.
func leased(j *job.Job) *Leased {
	return &Leased{Id: j.Id, Attempt: j.Attempt, LeaseToken: j.Lease.GetToken(), ExpiresNs: j.Lease.GetExpiresNs()}
}

// didNothing says that the fetch found nothing.
func (r *FetchResult) didNothing() bool { return len(r.Jobs) == 0 }

// Current says whether the lease still holds j, the job's record; nil is none.
func (l *Leased) Current(j *job.Job) bool {
	return j.GetState() == job.Active && job.ProvesLease(j, l.LeaseToken, "")
}

// lease makes a ready job the worker's, with the token. Nil is one that was ended or
// put aside instead.
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
	to, ok := job.Next(j.State, job.OnFetch)
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
	// One that is given back undelivered stays counted: a worker may have begun it.
	tx.EnsureQueue(j.Queue).CountRate(tx.ClockNs())
	if err := claim(tx, j); err != nil {
		return nil, err
	}
	if err := tx.PutJob(j, state.EventType_EVENT_STARTED); err != nil {
		return nil, err
	}
	g.leased.Id, g.leased.Attempt, g.leased.LeaseToken, g.leased.ExpiresNs = j.Id, j.Attempt, g.token[:], g.lease.ExpiresNs
	return &g.leased, nil
}

// newLease is what a fetched job costs, in one piece.
type newLease struct {
	lease  job.Lease
	leased Leased
	token  token
}
