package state

import (
	"fmt"
	"slices"

	"github.com/corvo/corvo/dataplane/job"
)

// Package event composes an event from the records that these methods read, as of a commit or of the running
// entry.

// Progress returns the progress that a job's worker last reported, as of the last commit, or nil if there is
// none.
func (s *Store) Progress(id job.ID) (*job.Blob, error) { return s.Blob(id, job.Progress) }

// Progress returns the progress that a job's worker last reported, or nil if there is none.
func (v *Snapshot) Progress(id job.ID) (*job.Blob, error) { return v.Blob(id, job.Progress) }

// Progress returns the progress that a job's worker last reported, or nil if there is none.
func (tx *Tx) Progress(id job.ID) (*job.Blob, error) {
	j, err := tx.Job(id)
	if j == nil || err != nil {
		return nil, err
	}
	return tx.Blob(j, job.Progress)
}

// AttemptError returns the error of one attempt of a job as of the last commit, or nil if none is stored.
func (s *Store) AttemptError(id job.ID, attempt uint32) (*job.AttemptError, error) {
	return committed(s, func(r source) (*job.AttemptError, error) { return readError(r, id, attempt) })
}

// AttemptError returns the error of one attempt of a job, or nil if none is stored.
func (v *Snapshot) AttemptError(id job.ID, attempt uint32) (*job.AttemptError, error) {
	return readError(v.snap, id, attempt)
}

func readError(r source, id job.ID, attempt uint32) (*job.AttemptError, error) {
	e := &job.AttemptError{}
	if found, err := get(r, appendErrorKey(nil, id, attempt), e); !found {
		return nil, err
	}
	return e, nil
}

// AttemptError returns the error of one attempt of a job as the entry's earlier ops left it, or nil if none
// is stored. After PutError, an op must call PutJob before it reads the error.
func (tx *Tx) AttemptError(id job.ID, attempt uint32) (*job.AttemptError, error) {
	e, err := tx.attemptError(id, attempt)
	if err != nil {
		return nil, tx.fail(fmt.Errorf("error of attempt %d of job %s: %w", attempt, id, err))
	}
	return e, nil
}

func (tx *Tx) attemptError(id job.ID, attempt uint32) (*job.AttemptError, error) {
	j, err := tx.Job(id)
	if j == nil || err != nil {
		return nil, err
	}
	h, err := tx.readableEntryJob(j)
	if err != nil {
		return nil, err
	}
	if err := tx.readAttempts(h, j); err != nil {
		return nil, err
	}
	if !slices.Contains(h.attempts, attempt) {
		return nil, nil
	}
	e := &job.AttemptError{}
	return e, tx.read(appendErrorKey(nil, id, attempt), e)
}

// Alert returns the state of an alert rule, or nil before the rule first fired.
func (v *Snapshot) Alert(ruleID [16]byte) (*Alert, error) {
	return readRow[Alert](v.snap, &alertKind, ruleID)
}

// Declared returns a resource by its id, or nil if there is none.
func (tx *Tx) Declared(id [16]byte) (*Resource, error) {
	return tx.ResourceIndex().ResourceByID(id), nil
}

// Declared returns a resource by its id as of the last commit, or nil if there is none.
func (s *Store) Declared(id [16]byte) (*Resource, error) {
	return s.ResourceIndex().ResourceByID(id), nil
}

// Declared returns a resource by its id, or nil if there is none.
func (v *Snapshot) Declared(id [16]byte) (*Resource, error) {
	resources, err := v.ResourceIndex()
	return resources.ResourceByID(id), err
}
