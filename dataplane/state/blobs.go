package state

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
)

// Blob is one of the blobs of a job that the entry has read or made, as its earlier
// ops left it: what the running op itself has put shows after its PutJob. It is nil
// where the job has none of the kind.
func (tx *Tx) Blob(j *job.Job, kind job.BlobKind) (*job.Blob, error) {
	if j.Blobs&(1<<kind) == 0 {
		return nil, nil
	}
	b, err := tx.blob(j, kind)
	if err != nil {
		return nil, tx.fail(fmt.Errorf("blob %d of job %x: %w", kind, j.Id, err))
	}
	return b, nil
}

func (tx *Tx) blob(j *job.Job, kind job.BlobKind) (*job.Blob, error) {
	id, err := job.IDFromBytes(j.Id)
	if err != nil {
		return nil, err
	}
	h, err := tx.hold(id)
	if err != nil {
		return nil, err
	}
	if h.dirty {
		if err := tx.readWritten(); err != nil {
			return nil, err
		}
	}
	b := &job.Blob{}
	return b, tx.read(appendBlobKey(nil, id, kind), b)
}
