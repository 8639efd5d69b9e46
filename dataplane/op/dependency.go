package op

import (
	"errors"
	"fmt"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// A job with dependencies begins scheduled. It counts in blocked_by the dependencies that it still waits for.
// It has no timer except the one of its expiry, so it costs nothing while it waits. The wait ends in four
// steps, on one shard as on many:
//
//	Enqueue sends WatchJob      -> to the shard where the dependency was created
//	WatchJob records the waiter -> beside the dependency; if the dependency has moved, the WatchJob follows it
//	settle marks the record     -> a timer is due
//	ResolveDependents           -> sends SettleDependency to each waiter, some at a time
//
// SettleDependency counts down, or acts as the waiter's policy says. A job stays on its shard as long as it
// waits for others, and so does a job that others wait for, so that neither has to be looked for.
//
// Checking at once whether all dependencies have completed was rejected. It saves an entry if they have, but it
// adds a second way to the same result.

// watchJobBytes is an upper bound on the size of a WatchJob in an outbox.
const watchJobBytes = 128

// checkDependencies checks the dependencies of the jobs. Their number is bounded for the whole op, because
// Apply looks up each dependency and writes to it.
func (o *Enqueue) checkDependencies(p *problems) {
	total := 0
	for _, nj := range o.Jobs {
		total += len(nj.GetDependsOn())
	}
	if total > job.MaxDependencies {
		p.add("jobs", fmt.Errorf("depend on %d others; at most %d are allowed in one request: split it", total, job.MaxDependencies))
		return
	}
	for i, nj := range o.Jobs {
		nj.checkDependencies(p, i)
	}
}

func (nj *NewJob) checkDependencies(p *problems, i int) {
	if policy := nj.GetOptions().GetDependencyPolicy(); !policy.Known() {
		p.item("jobs", i, "dependency_policy", fmt.Errorf("is %d; use fail (0), hold (1) or ignore (2)", policy))
	}
	seen := make(map[string]struct{}, len(nj.GetDependsOn()))
	for k, d := range nj.GetDependsOn() {
		err := d.check()
		if _, twice := seen[string(d.GetJobId())]; twice && err == nil {
			err = errors.New("is there twice")
		}
		seen[string(d.GetJobId())] = struct{}{}
		if err != nil {
			p.item("jobs", i, fmt.Sprintf("depends_on[%d]", k), err)
		}
	}
}

func (d *Dependency) check() error {
	if err := checkID(d.GetJobId()); err != nil {
		return err
	}
	return checkShard(d.GetShard())
}

// admitDependencies refuses jobs with NOT_FOUND if a dependency was created on this shard and does not exist,
// and with OVERLOADED if their WatchJob ops do not fit into the outbox to another shard.
func (o *Enqueue) admitDependencies(tx *state.Tx) error {
	var away map[uint32]uint64
	for _, nj := range o.Jobs {
		for _, d := range nj.DependsOn {
			if d.Shard == tx.Shard() {
				if err := admitDependency(tx, d.JobId); err != nil {
					return err
				}
				continue
			}
			if away == nil {
				away = map[uint32]uint64{}
			}
			away[d.Shard]++
			if !roomForWatchJobs(tx, d.Shard, away[d.Shard]) {
				refusal := api.Errorf(api.Overloaded, "the queue of messages to the shard of job %s, which this job depends on, is full: try again later", job.ID(d.JobId))
				refusal.RetryAfter = time.Second
				return refusal
			}
		}
	}
	return nil
}

// admitDependency refuses a dependency that is not on this shard and has not moved to another shard.
func admitDependency(tx *state.Tx, id []byte) error {
	j, err := jobOf(tx, id)
	if err != nil || j != nil {
		return err
	}
	f, err := tx.Forwarded(job.ID(id))
	if err != nil || f != nil {
		return err
	}
	return api.Errorf(api.NotFound, "there is no job %s to depend on", job.ID(id))
}

// roomForWatchJobs reports whether n WatchJob ops fit into the outbox to another shard.
func roomForWatchJobs(tx *state.Tx, shard uint32, n uint64) bool {
	box := tx.Outbox(shard)
	return box.Ops()+n <= state.MaxOutboxOps && box.Bytes+n*watchJobBytes <= state.MaxOutboxBytes
}

// block makes a new job wait for its dependencies, if it has any.
func (nj *NewJob) block(j *job.Job) {
	j.BlockedBy = uint32(len(nj.DependsOn))
}

// watch sends a WatchJob for each dependency of a job that was just stored.
func (nj *NewJob) watch(tx *state.Tx, id []byte) error {
	for _, d := range nj.DependsOn {
		if err := send(tx, d.Shard, &WatchJob{JobId: d.JobId, WaiterId: id, WaiterShard: tx.Shard()}); err != nil {
			return err
		}
	}
	return nil
}

// tied reports whether a job must stay on its shard because it waits for others or others wait for it.
func tied(j *job.Job) bool { return j.GetBlockedBy() > 0 || j.GetHasDependents() }

// observe updates the record of a job's dependents to the job's present state and returns it, nil if no job
// waits. Once the record says that the job has settled, observe leaves it as it is, so that all its waiters
// get one answer even if the job is retried meanwhile.
func observe(tx *state.Tx, id job.ID) (*state.Dependents, error) {
	d, err := tx.Dependents(id)
	if err != nil || d == nil || d.Settled != job.State_STATE_UNSPECIFIED {
		return d, err
	}
	j, err := tx.Job(id)
	switch {
	case err != nil:
		return nil, err
	case j != nil && !j.State.Settled():
		d.SettledNs = 0
		if !j.HasDependents {
			j.HasDependents = true
			err = tx.PutJob(j) // no event, because the job's state is unchanged and no reader sees the mark
		}
	default: // also if the job is not here: ResolveDependents finds out why
		d.Settled, d.SettledNs = j.GetState(), tx.ClockNs()
	}
	if err != nil {
		return nil, err
	}
	return d, tx.PutDependents(id, d)
}

// settleDependents records how a job with dependents has settled. A duty notifies the dependents, because
// there may be many.
func settleDependents(tx *state.Tx, j *job.Job) error {
	if !j.HasDependents {
		return nil
	}
	d, err := tx.Dependents(job.ID(j.Id))
	if err == nil && d == nil {
		err = errors.New("it has dependents and nobody waits for it")
	}
	if err != nil {
		return fmt.Errorf("settle job %s: %w", job.ID(j.Id), err)
	}
	j.HasDependents = false
	d.Settled, d.SettledNs = j.State, tx.ClockNs()
	return tx.PutDependents(job.ID(j.Id), d)
}
