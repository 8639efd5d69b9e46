package op

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// Enqueue creates all of its jobs or, if it is refused, none. The proposer gives each job its id in meta.ids
// and fills in every default. If the queue has its own default for a value that the client left open, the
// queue's default wins at apply. Queues are created on demand. If another job holds a new job's unique or
// debounce key, the new job is not created and the holder's id is returned. The holder of a debounce key is
// also postponed.
//
// A repeated Enqueue, recognised by its ids, returns the first answer and changes nothing, as long as one of
// its jobs or its new batch shows that it was applied (see Enqueue.earlier).

// Validate refuses an op that no state could accept.
func (o *Enqueue) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.length("jobs", len(o.Jobs), job.MaxEnqueueJobs)
	ids := o.checkBatch(&p)
	if len(ids) != len(o.Jobs) {
		p.add("meta.ids", fmt.Errorf("has %d ids for %d jobs", len(ids), len(o.Jobs)))
	} else if len(o.Jobs) <= job.MaxEnqueueJobs {
		checkNewIDs(&p, ids, o.Jobs)
		for i, nj := range o.Jobs {
			nj.check(&p, i)
			nj.checkClients(&p, i)
		}
		o.checkDependencies(&p)
	}
	p.whole(o)
	return p.err()
}

// checkNewIDs checks that each job has an id of its own, made for its queue.
func checkNewIDs(p *problems, ids [][]byte, jobs []*NewJob) {
	seen := make(map[job.ID]struct{}, len(ids))
	for i, b := range ids {
		id, err := job.IDFromBytes(b)
		if err != nil {
			p.item("meta.ids", i, "", err)
			continue
		}
		if _, twice := seen[id]; twice {
			p.item("meta.ids", i, "", fmt.Errorf("%s is there twice", id))
		}
		seen[id] = struct{}{}
		if id.Slot() != job.SlotOf(jobs[i].GetQueue()) {
			p.item("meta.ids", i, "", fmt.Errorf("%s was not made for queue %q", id, jobs[i].GetQueue()))
		}
	}
}

// Apply creates the jobs. It refuses the op
//   - with VALIDATION_ERROR if a due time lies too far ahead,
//   - with NOT_FOUND if a dependency on this shard, the batch or the parent batch does not exist,
//   - with STATE_CONFLICT if the batch or the parent batch is sealed,
//   - with CONFLICT if a queue is being deleted, the number of queues would exceed its limit, a queue receives
//     more jobs at once than may wait in it, the batch or the parent batch is full, or the parent batch lies
//     too deep,
//   - with QUEUE_FULL if a queue has no room and cannot make enough by dropping jobs,
//   - with OVERLOADED if the outbox to the shard of a dependency is full, there would be too many fairness
//     keys, or the entry is full and a queue would have to drop jobs.
func (o *Enqueue) Apply(tx *state.Tx) (*EnqueueResult, error) {
	earlier, err := o.earlier(tx)
	if err != nil || earlier != nil {
		return earlier, err
	}
	var p problems
	for i, nj := range o.Jobs {
		p.item("jobs", i, "scheduled_at", job.CheckSchedule(nj.ScheduledNs, tx.ClockNs()))
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	if err := o.admitDependencies(tx); err != nil {
		return nil, err
	}
	matches, err := o.matchKeys(tx)
	if err != nil {
		return nil, err
	}
	if err := o.admitLanes(tx); err != nil {
		return nil, err
	}
	queues, err := o.admit(tx, matches)
	if err != nil {
		return nil, err
	}
	batch, err := o.joinBatch(tx, matches.made(len(o.Jobs)))
	if err != nil {
		return nil, err
	}
	for _, q := range queues {
		if err := q.evict(tx); err != nil {
			return nil, fmt.Errorf("make room in queue %q: %w", q.queue.Name, err)
		}
	}
	result := o.newResult()
	for i, nj := range o.Jobs {
		j, err := nj.put(tx, o.Meta.Ids[i], matches.at(i), batch)
		if err != nil {
			return nil, err
		}
		e := result.Jobs[i]
		e.Id, e.State, e.Found = j.Id, j.State, matches.at(i).found
	}
	return result, nil
}

func (o *Enqueue) newResult() *EnqueueResult {
	jobs := make([]Enqueued, len(o.Jobs))
	r := &EnqueueResult{Jobs: make([]*Enqueued, len(o.Jobs)), BatchId: o.batchOfJobs()}
	for i := range jobs {
		r.Jobs[i] = &jobs[i]
	}
	return r
}
