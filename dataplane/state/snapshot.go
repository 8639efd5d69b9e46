package state

import (
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"github.com/corvo/corvo/dataplane/job"
)

// Reader reads jobs and their records, from a Store, a Snapshot, a JobIterator or a JobReader. A missing
// record is nil without an error. The caller owns the results, except the job and the blob of a JobReader.
type Reader interface {
	Job(id job.ID) (*job.Job, error)
	Blob(id job.ID, kind job.BlobKind) (*job.Blob, error)
	Errors(id job.ID) ([]*job.AttemptError, error) // in the order of the attempts
}

var (
	_ Reader = (*Store)(nil)
	_ Reader = (*Snapshot)(nil)
)

func readJob(r source, id job.ID) (*job.Job, error) {
	j := &job.Job{}
	if found, err := get(r, appendJobKey(nil, id), j); !found {
		return nil, err
	}
	return j, nil
}

func readBlob(r source, id job.ID, kind job.BlobKind) (*job.Blob, error) {
	b := &job.Blob{}
	if found, err := get(r, appendBlobKey(nil, id, kind), b); !found {
		return nil, err
	}
	return b, nil
}

func readErrors(r source, id job.ID) (list []*job.AttemptError, err error) {
	empty := func() *job.AttemptError { return &job.AttemptError{} }
	for e, err := range scanRange(r, appendErrorKey(nil, id, 0), errorsEnd(id), empty) {
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// Job returns a committed job, or nil if there is none.
func (s *Store) Job(id job.ID) (*job.Job, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, errClosed
	}
	j := &job.Job{}
	found, err := s.gen.recentJobs.load(id, asOfNow, j)
	if !found {
		found, err = get(s.gen.db, appendJobKey(nil, id), j)
	}
	if !found {
		return nil, err
	}
	return j, err
}

// Blob returns a committed blob of a job, or nil if there is none.
func (s *Store) Blob(id job.ID, kind job.BlobKind) (*job.Blob, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, errClosed
	}
	b := &job.Blob{}
	found, err := s.gen.recentBlob(id, kind, asOfNow, b)
	if !found {
		found, err = get(s.gen.db, appendBlobKey(nil, id, kind), b)
	}
	if !found {
		return nil, err
	}
	return b, err
}

// Errors returns the committed errors of a job's attempts, sorted by attempt.
func (s *Store) Errors(id job.ID) ([]*job.AttemptError, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, errClosed
	}
	return readErrors(s.gen.db, id)
}

// Snapshot is a consistent, unchanging view of the store that outlives a Restore. The caller must close it.
// Any number of goroutines may read it.
type Snapshot struct {
	gen  *generation
	snap source
	head *Head
	keys *keyring
}

// source is the part of Pebble that reads need. An open Pebble store and a snapshot of one implement it.
type source interface {
	Get(key []byte) (value []byte, closer io.Closer, err error)
	NewIter(o *pebble.IterOptions) (*pebble.Iterator, error)
	Close() error
}

// Snapshot takes a snapshot as of the last commit; it waits for a commit that is being written. It never
// fails: if the store is closed, reads of the snapshot's records return an error. A snapshot taken before
// Close can still be read.
func (s *Store) Snapshot() *Snapshot {
	s.publish.Lock()
	defer s.publish.Unlock()
	v := &Snapshot{head: s.head.Load(), keys: s.keysRead.Load()}
	gen, err := s.acquire()
	if err != nil {
		v.snap = errSource{err}
		return v
	}
	v.gen, v.snap = gen, gen.db.NewSnapshot()
	return v
}

// Close releases the snapshot. Later reads of records return an error.
func (v *Snapshot) Close() error {
	err := v.snap.Close()
	if v.gen != nil {
		err = errors.Join(err, v.gen.release())
		v.gen = nil
	}
	v.snap = errSource{fmt.Errorf("the snapshot is closed")}
	return err
}

// errSource returns an error from every read.
type errSource struct{ err error }

func (n errSource) Get([]byte) ([]byte, io.Closer, error)                 { return nil, nil, n.err }
func (n errSource) NewIter(*pebble.IterOptions) (*pebble.Iterator, error) { return nil, n.err }
func (n errSource) Close() error                                          { return nil }

// Head returns a copy of the head record. The caller must not change its byte slices and messages, because
// the store shares them.
func (v *Snapshot) Head() *Head { return v.head.copy() }

// Job returns a job, or nil if there is none.
func (v *Snapshot) Job(id job.ID) (*job.Job, error) { return readJob(v.snap, id) }

// Blob returns a blob of a job, or nil if there is none.
func (v *Snapshot) Blob(id job.ID, kind job.BlobKind) (*job.Blob, error) {
	return readBlob(v.snap, id, kind)
}

// Errors returns the errors of a job's attempts, sorted by attempt.
func (v *Snapshot) Errors(id job.ID) ([]*job.AttemptError, error) { return readErrors(v.snap, id) }

// Jobs yields every job in the order of the ids.
func (v *Snapshot) Jobs() iter.Seq2[*job.Job, error] {
	return scan(v.snap, prefixJob, func() *job.Job { return &job.Job{} })
}

// JobsFrom yields the job with the id and all later ones, in the order of the ids.
func (v *Snapshot) JobsFrom(id job.ID) iter.Seq2[*job.Job, error] {
	return scanRange(v.snap, appendJobKey(nil, id), afterPrefix(prefixJob), func() *job.Job { return &job.Job{} })
}

// Queues yields every queue in the order of the names.
func (v *Snapshot) Queues() iter.Seq2[*Queue, error] {
	return scan(v.snap, prefixQueue, func() *Queue { return &Queue{} })
}

// Queue returns a queue by name, or nil if it is unknown.
func (v *Snapshot) Queue(name string) (*Queue, error) {
	q := &Queue{}
	if found, err := get(v.snap, queueKey(name), q); !found {
		return nil, err
	}
	return q, nil
}

// All yields a copy of every key and value in key order, for comparing replicas byte for byte.
func (v *Snapshot) All() iter.Seq2[KV, error] {
	return func(yield func(KV, error) bool) {
		for kv, err := range scanPairs(v.snap, nil, nil) {
			kv = KV{Key: append([]byte{}, kv.Key...), Value: append([]byte{}, kv.Value...)}
			if !yield(kv, err) {
				return
			}
		}
	}
}
