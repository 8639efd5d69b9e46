package op

import (
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// A job may have a unique key or a debounce key, which only one job of its queue holds at a time. A new job
// is not created while another job holds its key. The holder of a debounce key is then postponed. A job holds
// its debounce key only while it is scheduled.

// jobKey is a unique or debounce key of a queue.
type jobKey struct {
	kind  state.LockKind
	queue string
	text  string
}

// jobKey returns the job's own key, if it has one. Validate refuses a job with keys of both kinds.
func (nj *NewJob) jobKey() (k jobKey, has bool) {
	switch {
	case nj.Options.GetUniqueKey() != "":
		return jobKey{state.LockUnique, nj.Queue, nj.Options.GetUniqueKey()}, true
	case nj.Options.GetDebounceKey() != "":
		return jobKey{state.LockDebounce, nj.Queue, nj.Options.GetDebounceKey()}, true
	}
	return jobKey{}, false
}

// found returns the outcome of an enqueue that finds the key held.
func (k jobKey) found() Found {
	if k.kind == state.LockDebounce {
		return Found_FOUND_DEBOUNCED
	}
	return Found_FOUND_DUPLICATE
}

// holder returns the job that holds the key. A unique key whose period is over is free, even before ReleaseUnique
// has freed it.
func (k jobKey) holder(tx *state.Tx) (id job.ID, taken bool, err error) {
	id, taken, err = tx.Locked(k.kind, k.queue, k.text)
	if err != nil || !taken || k.kind != state.LockUnique {
		return id, taken, err
	}
	j, err := tx.Job(id)
	if err != nil {
		return id, false, err
	}
	return id, j.GetDetail().GetUniqueExpiresNs() > tx.ClockNs(), nil
}

// keyMatch is the existing job that holds a new job's key. The zero value means that no job holds the key and
// the new job is created.
type keyMatch struct {
	found  Found
	holder job.ID
}

// keyMatches has the keyMatch of each job of an op, by position. It is nil if no job has a key.
type keyMatches []keyMatch

func (m keyMatches) at(i int) keyMatch {
	if m == nil {
		return keyMatch{}
	}
	return m[i]
}

// made returns how many of the op's n jobs are created.
func (m keyMatches) made(n int) int {
	for _, match := range m {
		if match.found != Found_FOUND_NONE {
			n--
		}
	}
	return n
}

// matchKeys finds the holder of each job's key: an existing job, or an earlier job of this op. It runs before
// anything is written, because it decides how many jobs are created and so whether they are admitted. The
// result stays valid even if a found job is then dropped to free room in its queue, as if the duplicates had
// come just before the drop.
func (o *Enqueue) matchKeys(tx *state.Tx) (keyMatches, error) {
	var all keyMatches
	m := keyMatcher{tx: tx}
	for i, nj := range o.Jobs {
		if _, has := nj.jobKey(); !has {
			continue
		}
		if all == nil {
			all = make(keyMatches, len(o.Jobs))
		}
		match, err := m.match(o.Meta.Ids[i], nj)
		if err != nil {
			return nil, err
		}
		all[i] = match
	}
	return all, nil
}

// keyMatcher looks up the holders of keys and remembers which of the op's own jobs takes a key.
type keyMatcher struct {
	tx    *state.Tx
	taken map[jobKey]job.ID
}

func (m *keyMatcher) match(id []byte, nj *NewJob) (keyMatch, error) {
	k, has := nj.jobKey()
	if !has {
		return keyMatch{}, nil
	}
	holder, taken := m.taken[k]
	if !taken {
		var err error
		if holder, taken, err = k.holder(m.tx); err != nil {
			return keyMatch{}, err
		}
	}
	if taken {
		return keyMatch{k.found(), holder}, nil
	}
	if m.taken == nil {
		m.taken = map[jobKey]job.ID{}
	}
	m.taken[k] = job.ID(id)
	return keyMatch{}, nil
}

// takeUnique gives a new job its unique key, if it has one. It frees the key if the last holder's period is
// over and ReleaseUnique has not yet freed it.
func (nj *NewJob) takeUnique(tx *state.Tx, j *job.Job) error {
	if nj.Options.GetUniqueKey() == "" {
		return nil
	}
	j.Details().UniqueExpiresNs = tx.ClockNs() + nj.Options.GetUniquePeriodMs()*int64(time.Millisecond)
	return freeUnique(tx, nj.Queue, nj.Options.GetUniqueKey())
}

// freeUnique takes a unique key from the job that holds it, if any. The caller must have found that the key's
// period is over.
func freeUnique(tx *state.Tx, queue, text string) error {
	id, held, err := tx.Locked(state.LockUnique, queue, text)
	if err != nil || !held {
		return err
	}
	holder, err := tx.Job(id)
	if err != nil {
		return err
	}
	holder.Details().UniqueExpiresNs = 0
	return tx.PutJob(holder, state.EventType_EVENT_UNLOCKED)
}
