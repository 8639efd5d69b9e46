package state

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
)

// timer is one entry of the timer index without the id of its record. The zero timer is none.
type timer struct {
	class TimerClass
	dueNs int64
}

// index is the part of a job's record that other records derive from: the ready key, gate, timers, locks,
// lease, settled key and place in the queue's counters. Two records of a job with equal indexes have the same
// derived keys. The zero index belongs to a job that is not stored.
type index struct {
	queue    string
	state    job.State
	ready    bool
	priority uint8
	number   uint64
	key      string // fairness key, while the job counts in a lane
	timer    timer  // when its state ends
	expiry   timer  // when the job expires
	unlock   timer  // when its unique key is released
	lease    leaseToken
	// startedNs is when the job's running attempt began; 0 = none runs.
	startedNs int64
	settled   int64            // when the job settled, which starts its retention; 0 while nothing may remove the job
	gate      gateName         // the gate it waits at instead of being ready
	locks     [jobLocks]string // the keys it holds, by kind; empty for none
}

// derive computes the index of a job. It is the only code that derives records from a job.
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
		ix.gate = gateOf(j)
		ix.ready = ix.gate == gateName{}
	case job.Scheduled:
		if j.BlockedBy == 0 {
			ix.timer = timer{TimerScheduled, j.ScheduledNs}
		}
		ix.locks[LockDebounce] = j.Options.GetDebounceKey()
	case job.Retrying:
		ix.timer = timer{TimerRetry, j.ScheduledNs}
	case job.Active:
		if j.Lease == nil {
			return index{}, fmt.Errorf("it is active without a lease")
		}
		ix.timer = timer{TimerLease, j.Lease.ExpiresNs}
		ix.lease = tokenOf(j)
		ix.startedNs = j.StartedNs
	}
	if ix.inLane() {
		ix.key = j.FairnessKey
	}
	if j.Detail.GetExpireNs() > 0 && !j.State.Settled() {
		ix.expiry = timer{TimerExpiry, j.Detail.GetExpireNs()}
	}
	if j.Detail.GetUniqueExpiresNs() > 0 && (j.Options.GetUniqueWholePeriod() || !j.State.Settled()) {
		ix.locks[LockUnique] = j.Options.GetUniqueKey()
		ix.unlock = timer{TimerUnique, j.Detail.GetUniqueExpiresNs()}
	}
	if j.State.Settled() && ix.unlock == (timer{}) {
		ix.settled = j.SettledNs // a job that keeps its unique key stays, because the key would be free without the job
	}
	return ix, nil
}

// timers returns the timers of a job; a zero timer is none.
func (ix *index) timers() [3]timer { return [...]timer{ix.timer, ix.expiry, ix.unlock} }

// readyAs reports whether two indexes have the same ready key, or neither has one.
func (ix index) readyAs(other index) bool {
	return ix.ready == other.ready &&
		(!ix.ready || ix.priority == other.priority && ix.number == other.number && ix.queue == other.queue && ix.key == other.key)
}
