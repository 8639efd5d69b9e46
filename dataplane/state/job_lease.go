package state

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
)

// leases maps a lease token to its active job. The map lies only in memory: it derives from the jobs, only
// the applying goroutine looks tokens up, and a stored key for each lease would add a write to every fetch
// and ack. Keys and values contain no pointers, so the garbage collector does not scan them.
type leases map[leaseToken]job.ID

// leaseToken is the token of a current lease; the zero token is none.
type leaseToken [job.TokenSize]byte

// tokenOf returns the token of an active job's lease.
func tokenOf(j *job.Job) (t leaseToken) {
	copy(t[:], j.Lease.GetToken())
	return t
}

// move updates the map when a job's index changes from was to is.
func (l leases) move(was, is index, id job.ID) {
	if was.lease == is.lease {
		return
	}
	if was.lease != (leaseToken{}) {
		delete(l, was.lease)
	}
	if is.lease != (leaseToken{}) {
		l[is.lease] = id
	}
}

// loadLeases reads the active jobs, which the lease timers list. Its cost depends on their number, not on the
// backlog.
func loadLeases(r source) (leases, error) {
	all := leases{}
	for key, err := range scanKeys(r, []byte{prefixTimer, byte(TimerLease)}, timerEnd(TimerLease)) {
		if err != nil {
			return nil, err
		}
		_, id, err := decodeTimerKey(key)
		if err != nil {
			return nil, err
		}
		j := &job.Job{}
		found, err := get(r, appendJobKey(nil, id), j)
		if err != nil {
			return nil, err
		}
		if !found || j.State != job.Active {
			return nil, fmt.Errorf("there is a lease timer of job %s, which is not active", job.ID(id))
		}
		all.move(index{}, index{lease: tokenOf(j)}, id)
	}
	return all, nil
}

// Leased returns the active job whose current lease has the token, as the entry's earlier ops left it; ok is
// false if there is none.
func (tx *Tx) Leased(token [job.TokenSize]byte) (id job.ID, ok bool) {
	id, ok = tx.s.leases[token]
	return id, ok
}
