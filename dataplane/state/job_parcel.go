package state

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
)

// Parcel holds the documents that a job takes along to another shard: its blobs and errors.
type Parcel struct {
	Blobs  [job.BlobKinds]*job.Blob // nil if there is none
	Errors []*job.AttemptError      // in the order of their attempts
}

// Parcel returns the documents of j as the entry's earlier ops left them. The entry must have read j, and
// must have put its last change of j.
func (tx *Tx) Parcel(j *job.Job) (*Parcel, error) {
	p, err := tx.parcel(j)
	if err != nil {
		return nil, tx.fail(fmt.Errorf("documents of job %x: %w", j.Id, err))
	}
	return p, nil
}

func (tx *Tx) parcel(j *job.Job) (*Parcel, error) {
	h, err := tx.readableEntryJob(j)
	if err != nil {
		return nil, err
	}
	p := &Parcel{}
	for kind := range job.BlobKinds {
		if j.Blobs&(1<<kind) == 0 {
			continue
		}
		if p.Blobs[kind], err = tx.blob(h, kind); err != nil {
			return nil, err
		}
	}
	if err := tx.readAttempts(h, j); err != nil {
		return nil, err
	}
	for _, attempt := range h.attempts {
		e := &job.AttemptError{}
		if err := tx.read(appendErrorKey(nil, h.id, attempt), e); err != nil {
			return nil, err
		}
		p.Errors = append(p.Errors, e)
	}
	return p, nil
}

// read decodes a record that must exist. It takes the entry's own write if readWritten has read that, else
// the stored record.
func (tx *Tx) read(key []byte, into record) error {
	if value, ok := tx.written[string(key)]; ok {
		return decode(KV{key, value}, into)
	}
	found, err := get(tx.s.gen.db, key, into)
	if err == nil && !found {
		err = errKey(key, "is missing")
	}
	return err
}

// readWritten indexes the blobs and errors that the entry has written to its batch. Few entries read them
// back, for example when a job moves to another shard in the entry that gave it a document. Keeping the
// documents in memory would cost every other entry. Each part of the batch is read once, so an entry pays for
// its length once.
func (tx *Tx) readWritten() error {
	if tx.written == nil {
		tx.written = map[string][]byte{}
	}
	all := tx.batch.Reader()
	rest := all[tx.writtenRead:]
	for len(rest) > 0 {
		_, key, value, ok, err := rest.Next()
		if err != nil {
			return fmt.Errorf("read the entry's own writes: %w", err)
		}
		if !ok {
			break
		}
		// The last value of a key is the current one. Nobody looks up a deleted record, because its bit in
		// Blobs or its attempt in the list is gone, and range deletions cover neither blobs nor errors.
		if len(key) > 0 && (key[0] == prefixBlob || key[0] == prefixError) {
			tx.written[string(key)] = value
		}
	}
	tx.writtenRead = len(all) - len(rest)
	return nil
}
