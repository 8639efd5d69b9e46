package state

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
)

// timer is one entry of the timer index, but for the id it belongs to. The
// zero timer is none.
type timer struct {
	class TimerClass
	dueNs int64
}

// index is all of a job's record that other records are derived from: its ready
// key, its timer, its lease and its place in its queue's counters. Two records of a job
// with equal indexes have the same derived keys. The zero index is that of a
// job that is not stored.
type index struct {
	queue    string
	state    job.State
	ready    bool
	priority uint8
	number   uint64
	timer    timer
	lease    leaseToken
}

// derive is the only place that says what is derived from a job.
func derive(j *job.Job) (index, error) {
	if j.State <= 0 || int(j.State) >= job.States {
		return index{}, fmt.Errorf("state %d is none", j.State)
	}
	if j.Priority >= job.Priorities {
		return index{}, fmt.Errorf("priority %d is none", j.Priority)
	}
	ix := index{queue: j.Queue, state: j.State, priority: uint8(j.Priority), number: j.Number}
	switch j.State {
	case job.Pending:
		ix.ready = true
	case job.Scheduled:
		ix.timer = timer{TimerScheduled, j.ScheduledNs}
	case job.Retrying:
		ix.timer = timer{TimerRetry, j.ScheduledNs}
	case job.Active:
		if j.Lease == nil {
			return index{}, fmt.Errorf("it is active without a lease")
		}
		ix.timer = timer{TimerLease, j.Lease.ExpiresNs}
		ix.lease = tokenOf(j)
	}
	return ix, nil
}

// readyAs says whether two indexes have the same ready key or both none.
func (ix index) readyAs(other index) bool {
	return ix.ready == other.ready &&
		(!ix.ready || ix.priority == other.priority && ix.number == other.number && ix.queue == other.queue)
}
