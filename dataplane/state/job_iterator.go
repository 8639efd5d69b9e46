package state

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/corvo/corvo/dataplane/job"
)

// JobIterator reads many jobs and blobs of a Snapshot for a caller that asks for them in about the order of
// their ids. It finds recently written records in memory. For the others it keeps an iterator for each kind
// of record: from one record to a near one the iterator needs a step or two, while a lookup searches from the
// root each time. In any other order it is no faster than lookups.
//
// A JobIterator belongs to one goroutine and must be closed before its Snapshot.
type JobIterator struct {
	*Snapshot   // for rarely read records
	jobs, blobs *pebble.Iterator
	key         []byte // scratch
}

var _ Reader = (*JobIterator)(nil)

// JobIterator opens a JobIterator.
func (v *Snapshot) JobIterator() (_ *JobIterator, err error) {
	s := &JobIterator{Snapshot: v}
	if s.jobs, err = prefixIter(v.snap, prefixJob); err != nil {
		return nil, err
	}
	if s.blobs, err = prefixIter(v.snap, prefixBlob); err != nil {
		return nil, errors.Join(err, s.jobs.Close())
	}
	return s, nil
}

func prefixIter(r source, prefix byte) (*pebble.Iterator, error) {
	return r.NewIter(&pebble.IterOptions{LowerBound: []byte{prefix}, UpperBound: afterPrefix(prefix)})
}

// Close closes the iterators. The Snapshot stays open.
func (s *JobIterator) Close() error { return errors.Join(s.jobs.Close(), s.blobs.Close()) }

// Job returns a job, or nil if there is none.
func (s *JobIterator) Job(id job.ID) (*job.Job, error) {
	j := &job.Job{}
	if found, err := s.gen.recentJobs.load(id, s.head.Index, j); found {
		return j, err
	}
	s.key = appendJobKey(s.key[:0], id)
	if found, err := seek(s.jobs, s.key, j); !found {
		return nil, err
	}
	return j, nil
}

// Blob returns a blob of a job, or nil if there is none.
func (s *JobIterator) Blob(id job.ID, kind job.BlobKind) (*job.Blob, error) {
	b := &job.Blob{}
	if found, err := s.gen.recentBlob(id, kind, s.head.Index, b); found {
		return b, err
	}
	s.key = appendBlobKey(s.key[:0], id, kind)
	if found, err := seek(s.blobs, s.key, b); !found {
		return nil, err
	}
	return b, nil
}

// seek decodes the record at key into m. found is false if there is none, or after an error.
func seek(it *pebble.Iterator, key []byte, m record) (found bool, err error) {
	if !find(it, key) {
		if err := it.Error(); err != nil {
			return false, fmt.Errorf("key %x: %w", key, err)
		}
		return false, nil
	}
	value, err := it.ValueAndErr()
	if err == nil {
		err = m.UnmarshalVT(value)
	}
	if err != nil {
		return false, fmt.Errorf("key %x: %w", key, err)
	}
	return true, nil
}

// find moves the iterator to the record at key. It returns false if there is none or the iterator has failed.
// Among jobs that were enqueued together the record is mostly the next one, and a step costs a fraction of a
// search. find tries the step only for ids of the same millisecond, because deleted records may lie between
// others.
func find(it *pebble.Iterator, key []byte) bool {
	const made = 1 + 48/8 // the prefix and the time in the id
	if it.Valid() && bytes.Equal(it.Key()[:made], key[:made]) && it.Next() && bytes.Equal(it.Key(), key) {
		return true
	}
	return it.SeekGE(key) && bytes.Equal(it.Key(), key)
}
