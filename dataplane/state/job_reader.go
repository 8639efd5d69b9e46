package state

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/corvo/corvo/dataplane/job"
)

// JobReader reads many recently written jobs and their payloads for one answer. Most are still in memory. Of
// the others, a job's record is at the top of the store, where a lookup finds it at once. Its payload lies
// far below, near the payloads of jobs that were enqueued with it, where an iterator pays off.
//
// A JobReader reads the live store, so it also sees commits made since it was opened. Therefore it is no
// Snapshot, whose other methods promise one state.
//
// Job fills and returns one object at each call, and Blob another. The caller must copy the parts it still
// needs before the next call. A returned job always has a lease and a retry policy; they are empty if the
// record has none. A JobReader belongs to one goroutine and must be closed.
type JobReader struct {
	gen   *generation
	blobs *pebble.Iterator // nil until a blob is read that is not in memory
	key   []byte           // scratch

	job   job.Job
	retry job.Retry
	lease job.Lease
	blob  job.Blob
}

var _ Reader = (*JobReader)(nil)

// JobReader opens a JobReader. It takes no snapshot, so it does not delay commits: a Snapshot and a commit
// wait for each other.
func (s *Store) JobReader() (*JobReader, error) {
	gen, err := s.acquire()
	if err != nil {
		return nil, err
	}
	return &JobReader{gen: gen}, nil
}

// Close ends the reading and must be called once.
func (s *JobReader) Close() error {
	var err error
	if s.blobs != nil {
		err = s.blobs.Close()
	}
	return errors.Join(err, s.gen.release())
}

// Job returns a job, or nil if there is none.
func (s *JobReader) Job(id job.ID) (*job.Job, error) {
	s.key = appendJobKey(s.key[:0], id)
	s.retry, s.lease = job.Retry{}, job.Lease{Token: s.lease.Token[:0]}
	s.job = job.Job{Id: s.job.Id[:0], History: s.job.History[:0], Retry: &s.retry, Lease: &s.lease}
	found, err := s.gen.recentJobs.load(id, asOfNow, &s.job)
	if !found {
		found, err = get(s.gen.db, s.key, &s.job)
	}
	if !found {
		return nil, err
	}
	return &s.job, err
}

// Errors returns the errors of a job's attempts, sorted by attempt.
func (s *JobReader) Errors(id job.ID) ([]*job.AttemptError, error) { return readErrors(s.gen.db, id) }

// Blob returns a blob of a job, or nil if there is none. A blob that is newer than the iterator costs a
// lookup.
func (s *JobReader) Blob(id job.ID, kind job.BlobKind) (*job.Blob, error) {
	s.blob = job.Blob{Data: s.blob.Data[:0]}
	if found, err := s.gen.recentBlob(id, kind, asOfNow, &s.blob); found {
		return &s.blob, err
	}
	if s.blobs == nil {
		var err error
		if s.blobs, err = prefixIter(s.gen.db, prefixBlob); err != nil {
			return nil, err
		}
	}
	s.key = appendBlobKey(s.key[:0], id, kind)
	found, err := seek(s.blobs, s.key, &s.blob)
	if !found && err == nil {
		found, err = get(s.gen.db, s.key, &s.blob)
	}
	if !found {
		return nil, err
	}
	return &s.blob, nil
}
