package state

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/corvo/corvo/dataplane/job"
)

// Sweep reads jobs and blobs of a Snapshot by id, for who wants many of them in
// about the order of their ids. What was written just now it finds in memory; for the rest
// it keeps an iterator for each kind of record: from one record to the next near it costs
// a step or two, where a read of the Snapshot finds its way from the top each time. Any
// other order is right too, and as slow.
//
// A Sweep belongs to one goroutine and must be closed before its Snapshot.
type Sweep struct {
	*Snapshot   // for what is read seldom
	jobs, blobs *pebble.Iterator
	key         []byte // scratch
}

var _ Reader = (*Sweep)(nil)

// Sweep starts a Sweep.
func (v *Snapshot) Sweep() (_ *Sweep, err error) {
	s := &Sweep{Snapshot: v}
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

// Close gives the iterators back; the Snapshot stays open.
func (s *Sweep) Close() error { return errors.Join(s.jobs.Close(), s.blobs.Close()) }

// Job is a job; nil when there is none.
func (s *Sweep) Job(id job.ID) (*job.Job, error) {
	j := &job.Job{}
	if found, err := s.Load(id, j); !found {
		return nil, err
	}
	return j, nil
}

// Load makes j a job, whatever it was, for who keeps none of many; found is false when
// there is none.
func (s *Sweep) Load(id job.ID, j *job.Job) (found bool, err error) {
	*j = job.Job{}
	if found, err := s.gen.recentJobs.load(id, s.head.Index, j); found {
		return true, err
	}
	s.key = appendJobKey(s.key[:0], id)
	return seek(s.jobs, s.key, j)
}

// Blob is a blob of a job; nil when there is none.
func (s *Sweep) Blob(id job.ID, kind job.BlobKind) (*job.Blob, error) {
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

// seek decodes the record at key into m; found is false when there is none.
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

// find goes to the record at key; false where there is none, or the iterator has failed.
// Mostly it is the one behind that which was found last, among jobs that were enqueued
// together, and a step costs a fraction of a search. It is tried for ids of one
// millisecond only: between others may lie whatever was deleted.
func find(it *pebble.Iterator, key []byte) bool {
	const made = 1 + 48/8 // the prefix, and the id's time
	if it.Valid() && bytes.Equal(it.Key()[:made], key[:made]) && it.Next() && bytes.Equal(it.Key(), key) {
		return true
	}
	return it.SeekGE(key) && bytes.Equal(it.Key(), key)
}
