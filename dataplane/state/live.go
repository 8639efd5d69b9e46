package state

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/corvo/corvo/dataplane/job"
)

// Reused reads jobs that were written just now and what they were enqueued with, for who
// hands many of them out. Most are still in memory. Of the others, a job's record lies on
// top of the store, where a look-up finds it at once, and its payload far below, near those
// of the jobs enqueued with it, where it pays to go along.
//
// Its Job and Blob answer the same one again, with other contents: what is still wanted of
// it when the next is asked for has to be copied. A job has a lease and a policy in any
// case; they are empty where its record has none. It belongs to one goroutine and must be
// closed.
type Reused struct {
	*Snapshot
	blobs *pebble.Iterator // nil until one is asked for that is not in memory
	key   []byte           // scratch

	job   job.Job
	retry job.Retry
	lease job.Lease
	blob  job.Blob
}

var _ Reader = (*Reused)(nil)

// Reuse begins to read. Nothing is frozen: it costs a commit nothing, where a Snapshot and
// a commit wait for each other.
func (s *Store) Reuse() (*Reused, error) {
	gen, err := s.acquire()
	if err != nil {
		return nil, err
	}
	return &Reused{Snapshot: &Snapshot{gen: gen, snap: lent{gen.db}, head: s.head.Load()}}, nil
}

// lent is the store's, who closes it.
type lent struct{ source }

func (lent) Close() error { return nil }

// Close ends the reading.
func (s *Reused) Close() error {
	var err error
	if s.blobs != nil {
		err = s.blobs.Close()
	}
	return errors.Join(err, s.Snapshot.Close())
}

// Job is a job; nil when there is none.
func (s *Reused) Job(id job.ID) (*job.Job, error) {
	s.key = appendJobKey(s.key[:0], id)
	s.retry, s.lease = job.Retry{}, job.Lease{Token: s.lease.Token[:0]}
	s.job = job.Job{Id: s.job.Id[:0], History: s.job.History[:0], Retry: &s.retry, Lease: &s.lease}
	found, err := s.gen.recentJobs.load(id, asOfNow, &s.job)
	if !found {
		found, err = get(s.snap, s.key, &s.job)
	}
	if !found {
		return nil, err
	}
	return &s.job, err
}

// Blob is a blob of a job; nil when there is none. One that has come since is looked up.
func (s *Reused) Blob(id job.ID, kind job.BlobKind) (*job.Blob, error) {
	s.blob = job.Blob{Data: s.blob.Data[:0]}
	if found, err := s.gen.recentBlob(id, kind, asOfNow, &s.blob); found {
		return &s.blob, err
	}
	if s.blobs == nil {
		var err error
		if s.blobs, err = prefixIter(s.snap, prefixBlob); err != nil {
			return nil, err
		}
	}
	s.key = appendBlobKey(s.key[:0], id, kind)
	found, err := seek(s.blobs, s.key, &s.blob)
	if !found && err == nil {
		found, err = get(s.snap, s.key, &s.blob)
	}
	if !found {
		return nil, err
	}
	return &s.blob, nil
}
