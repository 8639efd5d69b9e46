package op

import (
	"errors"
	"fmt"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// How a job depends on others. It is born scheduled, counts in blocked_by those that
// are not known to have completed, and has no timer: it costs nothing while it
// waits. Everything else is told by four steps, the same on one shard and on many:
//
//	Enqueue sends Watch     -> to the shard each of them was born on
//	Watch notes the waiter  -> beside the job; where that has moved, it is sent on
//	settle marks the note   -> a timer is due
//	ResolveDependents       -> sends Met to each waiter, some at a time
//
// Met counts down, or acts as the waiter's policy says. Between its birth and the
// last Met a job stays on its shard, and so does one that others wait for: neither
// has to be looked for.
//
// To look at once whether they have all completed was rejected: it saves an entry
// where they have, and makes a second way into the same place.

// watchBytes is more than a Watch takes in an outbox.
const watchBytes = 128

// checkDependencies looks at what the jobs depend on. How much that is is bounded
// for the whole op: each is looked for and written to when it is applied.
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

// admitDependencies refuses jobs that depend on one that should be here and is not,
// and those for which there is no room on the way to another shard.
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
			if !roomForWatches(tx, d.Shard, away[d.Shard]) {
				refusal := api.Errorf(api.Overloaded, "as much is on its way to the shard of job %s, which is depended on, as may be; try again later", job.ID(d.JobId))
				refusal.RetryAfter = time.Second
				return refusal
			}
		}
	}
	return nil
}

// admitDependency refuses a job of this shard that is not here and has not gone to
// another.
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

// roomForWatches says whether so many Watches may be sent to another shard.
func roomForWatches(tx *state.Tx, shard uint32, n uint64) bool {
	box := tx.Outbox(shard)
	return box.Ops()+n <= state.MaxOutboxOps && box.Bytes+n*watchBytes <= state.MaxOutboxBytes
}

// block has a new job wait for those it depends on.
func (nj *NewJob) block(j *job.Job) {
	j.BlockedBy = uint32(len(nj.DependsOn))
}

// watch asks to be told of those that a job which is stored now depends on.
func (nj *NewJob) watch(tx *state.Tx, id []byte) error {
	for _, d := range nj.DependsOn {
		if err := send(tx, d.Shard, &Watch{JobId: d.JobId, WaiterId: id, WaiterShard: tx.Shard()}); err != nil {
			return err
		}
	}
	return nil
}

// tied says whether a job cannot leave its shard, because it waits for others there
// or they for it.
func tied(j *job.Job) bool { return j.GetBlockedBy() > 0 || j.GetHasDependents() }

// observe brings what is noted of a job that others wait for up to how it stands
// here. Once they are to hear that it has settled, they do, whatever became of it
// since; who asks before all of them have heard hears the same.
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
			err = tx.PutJob(j) // its state is what it was, and no reader sees the mark
		}
	default: // also where it is not here: who tells them says why
		d.Settled, d.SettledNs = j.GetState(), tx.ClockNs()
	}
	if err != nil {
		return nil, err
	}
	return d, tx.PutDependents(id, d)
}

// settleDependents notes how a job that others wait for has settled: they are told
// by a duty, as there may be many.
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
