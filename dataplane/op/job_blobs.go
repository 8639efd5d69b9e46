package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// blob checks the size and the seal of a document of the i-th element of a list. A nil document passes.
func (p *problems) blob(list string, i int, field string, b *job.Blob, most int) {
	if b == nil {
		return
	}
	p.size(list, i, field, len(b.Data), most)
	p.item(list, i, field, job.CheckSeal(b))
}

// putBlob stores a document if b is not nil, and reports whether it did.
func putBlob(tx *state.Tx, j *job.Job, kind job.BlobKind, b *job.Blob) (bool, error) {
	if b == nil {
		return false, nil
	}
	if kind == job.Checkpoint && j.Detail.GetCheckpointIn() != 0 {
		j.Detail.CheckpointIn = 0 // no iteration record holds the new checkpoint
	}
	return true, tx.PutBlob(j, kind, b)
}
