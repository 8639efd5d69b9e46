package state

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
)

// Blob returns a blob of a job that the entry has read or created, as the entry's earlier ops left it, or nil
// if the job has none of the kind. After PutBlob, an op must call PutJob before it reads the blob.
func (tx *Tx) Blob(j *job.Job, kind job.BlobKind) (*job.Blob, error) {
	if j.Blobs&(1<<kind) == 0 {
		return nil, nil
	}
	h, err := tx.readableEntryJob(j)
	var b *job.Blob
	if err == nil {
		b, err = tx.blob(h, kind)
	}
	if err != nil {
		return nil, tx.fail(fmt.Errorf("blob %d of job %x: %w", kind, j.Id, err))
	}
	return b, nil
}

// blob reads a blob that must exist.
func (tx *Tx) blob(h *entryJob, kind job.BlobKind) (*job.Blob, error) {
	b := &job.Blob{}
	return b, tx.read(appendBlobKey(nil, h.id, kind), b)
}

// readableEntryJob returns the entry's copy of the job, after making the entry's own writes of it readable.
func (tx *Tx) readableEntryJob(j *job.Job) (*entryJob, error) {
	id, err := job.IDFromBytes(j.Id)
	if err != nil {
		return nil, err
	}
	h, err := tx.entryJob(id)
	if err == nil && h.dirty {
		err = tx.readWritten()
	}
	return h, err
}

func (tx *Tx) putBlob(id job.ID, kind job.BlobKind, b *job.Blob) error {
	tx.key = appendBlobKey(tx.key[:0], id, kind)
	record, err := encode(tx.batch, tx.key, b)
	if kind == job.Payload {
		tx.payloadsPut = append(tx.payloadsPut, payloadPut{id, record})
	}
	return err
}

func (tx *Tx) deleteBlob(id job.ID, kind job.BlobKind) error {
	if kind == job.Payload {
		tx.payloadsPut = append(tx.payloadsPut, payloadPut{id: id})
	}
	tx.key = appendBlobKey(tx.key[:0], id, kind)
	return tx.batch.Delete(tx.key, nil)
}
