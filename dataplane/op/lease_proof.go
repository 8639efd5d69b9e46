package op

import (
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// check checks the lease proof of the i-th item.
func (l *LeaseProof) check(p *problems, i int) {
	if n := len(l.GetId()); n != len(job.ID{}) {
		p.item("items", i, "job_id", fmt.Errorf("has %d bytes; a job id has %d", n, len(job.ID{})))
	}
	if n := len(l.GetToken()); n != 0 && n != job.TokenSize {
		p.item("items", i, "lease_token", fmt.Errorf("has %d bytes; a lease token has %d", n, job.TokenSize))
	}
	p.item("items", i, "worker_id", job.CheckText(l.GetWorkerId(), job.MaxWorkerID))
}

// job returns the job that a proof names. It refuses with NOT_FOUND if the job is not on this shard.
func (l *LeaseProof) job(tx *state.Tx) (*job.Job, *Refusal, error) {
	j, err := jobOf(tx, l.GetId())
	if err != nil {
		return nil, nil, err
	}
	if j == nil {
		return nil, refuse(api.NotFound, "there is no job %s", job.ID(l.GetId())), nil
	}
	return j, nil, nil
}

// transition returns the state that j gets by an event, if the proof shows that the worker holds j's lease. A
// proof that names another lease than the current one is refused with LEASE_LOST, whatever became of the job.
// A proof that names no lease is believed while the job is active and none of its leases has ended by expiry.
// If a lease of the job has expired, such a proof is refused with LEASE_LOST, because it must name its lease.
// If none has expired and the job is not active, the refusal is STATE_CONFLICT and names the job's state.
func (l *LeaseProof) transition(j *job.Job, on job.Event) (job.State, *Refusal) {
	to, possible := job.Transition(j.State, on)
	if possible && job.ProvesLease(j, l.GetToken(), l.GetWorkerId()) {
		return to, nil
	}
	id := job.ID(j.Id)
	if len(l.GetToken()) == 0 && l.GetWorkerId() == "" {
		if !possible && !j.LeaseExpired {
			return 0, refuse(api.StateConflict, "job %s is %s, not active", id, j.State.Word())
		}
		return 0, refuse(api.LeaseLost, "a lease of job %s has expired, so the request must name its lease: send the lease_token of your fetch", id)
	}
	return 0, refuse(api.LeaseLost, "this lease of job %s is over: stop working on it and fetch again", id)
}
