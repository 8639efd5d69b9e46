package op

import (
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// A job may have a key that one job of its queue has at a time. With a unique key
// it is not made while another has it. With a debounce key it puts the other off,
// as long as that one is scheduled.

// key is what keeps a job one of its kind.
type key struct {
	kind  state.LockKind
	queue string
	text  string
}

// key is the job's own, if it has one. Of two, which Validate refuses, the unique
// key counts.
func (nj *NewJob) key() (k key, has bool) {
	switch {
	case nj.Options.GetUniqueKey() != "":
		return key{state.LockUnique, nj.Queue, nj.Options.GetUniqueKey()}, true
	case nj.Options.GetDebounceKey() != "":
		return key{state.LockDebounce, nj.Queue, nj.Options.GetDebounceKey()}, true
	}
	return key{}, false
}

// found is what comes of an enqueue that finds the key taken.
func (k key) found() Found {
	if k.kind == state.LockDebounce {
		return Found_FOUND_DEBOUNCED
	}
	return Found_FOUND_DUPLICATE
}

// holder is the job that has the key. A unique key whose period is over is free,
// also before ReleaseUnique came by.
func (k key) holder(tx *state.Tx) (id job.ID, taken bool, err error) {
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

// meeting is what a job to be made comes upon. The zero meeting is nobody: it is
// made.
type meeting struct {
	found  Found
	holder job.ID
}

// meetings are those of an op's jobs, by position; nil where no job has a key.
type meetings []meeting

func (m meetings) at(i int) meeting {
	if m == nil {
		return meeting{}
	}
	return m[i]
}

// made is how many of n jobs are made.
func (m meetings) made(n int) int {
	for _, met := range m {
		if met.found != Found_FOUND_NONE {
			n--
		}
	}
	return n
}

// meet finds out which of the op's jobs others stand in for: jobs that are there,
// or ones of the op itself that come before. It is known before anything is written,
// for it decides how many jobs are made, and with that whether they are admitted. So
// it stays what it is also where a job that was met is dropped to make room: as if
// those who met it had come just before.
func (o *Enqueue) meet(tx *state.Tx) (meetings, error) {
	var all meetings
	m := meeter{tx: tx}
	for i, nj := range o.Jobs {
		if _, has := nj.key(); !has {
			continue
		}
		if all == nil {
			all = make(meetings, len(o.Jobs))
		}
		met, err := m.meet(o.Meta.Ids[i], nj)
		if err != nil {
			return nil, err
		}
		all[i] = met
	}
	return all, nil
}

// meeter looks for who has the keys of jobs, and remembers who of them takes one.
type meeter struct {
	tx    *state.Tx
	taken map[key]job.ID
}

func (m *meeter) meet(id []byte, nj *NewJob) (meeting, error) {
	k, has := nj.key()
	if !has {
		return meeting{}, nil
	}
	holder, taken := m.taken[k]
	if !taken {
		var err error
		if holder, taken, err = k.holder(m.tx); err != nil {
			return meeting{}, err
		}
	}
	if taken {
		return meeting{k.found(), holder}, nil
	}
	if m.taken == nil {
		m.taken = map[key]job.ID{}
	}
	m.taken[k] = job.ID(id)
	return meeting{}, nil
}

// takeUnique gives a new job its unique key, which nobody has any more. Who had it
// until its period was over, and was not visited since, gives it up.
func (nj *NewJob) takeUnique(tx *state.Tx, j *job.Job) error {
	if nj.Options.GetUniqueKey() == "" {
		return nil
	}
	j.Details().UniqueExpiresNs = tx.ClockNs() + nj.Options.GetUniquePeriodMs()*int64(time.Millisecond)
	return freeUnique(tx, nj.Queue, nj.Options.GetUniqueKey())
}

// freeUnique takes a unique key from who had it until its period was over, and was
// not visited since.
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
