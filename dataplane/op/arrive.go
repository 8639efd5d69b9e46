package op

import (
	"errors"
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// Arrive stores a job that another shard has sent, with everything that belongs to the job. The job exists on
// no other shard any more, so Arrive refuses nothing, and the limits of the receiving shard do not apply.
//
// Arrive does nothing if the job is already here, or was here and has moved on. Then the arrival is a repeat,
// or the sending shard was restored to a time before it sent the job. In both cases the later history is
// here, or on the shard that the job has moved on to.

// Validate refuses an op that no shard can have sent.
func (o *Arrive) Validate() error {
	var p problems
	o.Meta.check(&p)
	j := o.GetJob()
	if n := len(j.GetId()); n != len(job.ID{}) {
		p.add("job.id", fmt.Errorf("has %d bytes; a job id has %d", n, len(job.ID{})))
	}
	p.add("job.queue", job.CheckStoredQueueName(j.GetQueue()))
	if !mayMove(j.GetState()) {
		p.add("job.state", fmt.Errorf("is %q; such a job cannot be moved", j.GetState().Word()))
	}
	if j.GetPriority() >= job.Priorities {
		p.add("job.priority", fmt.Errorf("is %d; priorities are below %d", j.GetPriority(), job.Priorities))
	}
	if j.GetMoves() == 0 {
		p.add("job.moves", errors.New("is 0: it has not left any shard"))
	}
	if tied(j) {
		p.add("job", errors.New("waits for other jobs, or they for it; such a job cannot be moved"))
	}
	for i, b := range o.Blobs {
		if b.GetKind() >= uint32(job.BlobKinds) || b.GetBlob() == nil {
			p.item("blobs", i, "kind", fmt.Errorf("%d is none, or has no blob", b.GetKind()))
		}
	}
	if n := len(o.Errors); n > job.MaxErrorsKept {
		p.add("errors", fmt.Errorf("has %d elements; at most %d are allowed", n, job.MaxErrorsKept))
	}
	p.whole(o)
	return p.err()
}

func (o *Arrive) Apply(tx *state.Tx) (*ArriveResult, error) {
	known, err := o.known(tx)
	if err != nil || known {
		return &ArriveResult{}, err
	}
	j := o.Job
	j.Blobs, j.Errors = 0, 0
	if o.DropPriority {
		j.Priority = usualPriority(tx, j.Queue)
	}
	for _, b := range o.Blobs {
		if _, err := putBlob(tx, j, job.BlobKind(b.Kind), b.Blob); err != nil {
			return nil, err
		}
	}
	for _, e := range o.Errors {
		if err := tx.PutError(j, e); err != nil {
			return nil, err
		}
	}
	return &ArriveResult{}, tx.AdmitJob(j)
}

// known reports whether the job is here, or has left this shard by this arrival's move or a later one.
func (o *Arrive) known(tx *state.Tx) (bool, error) {
	j, err := jobOf(tx, o.GetJob().GetId())
	if err != nil || j != nil {
		return j != nil, err
	}
	f, err := tx.Forwarded(job.ID(o.Job.Id))
	return f.GetMove() >= o.Job.Moves, err
}
