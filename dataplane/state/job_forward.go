package state

import (
	"bytes"
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
)

// Forwarded returns where a job went when it last left this shard, as of the last commit, or nil if it never
// left or has come back.
//
// A reader that looks for a job begins at the shard in its id and follows the forwards. Each forward has a
// higher move number than the one before, so the walk visits a shard at most once. If a shard has neither the
// job nor a forward with a higher number, the job is on its way there and will be found a moment later.
func (s *Store) Forwarded(id job.ID) (*Forward, error) {
	if s.head.Load().ForwardRecords == 0 {
		return nil, nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, errClosed
	}
	return readForward(s.gen.db, id)
}

// Forwarded returns where a job went when it last left this shard, or nil if it never left or has come back.
func (v *Snapshot) Forwarded(id job.ID) (*Forward, error) { return readForward(v.snap, id) }

func readForward(r source, id job.ID) (*Forward, error) {
	f := &Forward{}
	if found, err := get(r, appendForwardKey(nil, id), f); !found {
		return nil, err
	}
	return f, nil
}

// Forwarded returns where a job went when it last left this shard, or nil if it never left or has come back.
// The caller must not change it.
func (tx *Tx) Forwarded(id job.ID) (*Forward, error) {
	h, err := tx.entryJob(id)
	if err == nil {
		err = tx.readForward(h)
	}
	if err != nil {
		return nil, tx.fail(fmt.Errorf("forward of job %s: %w", id, err))
	}
	return h.forward, nil
}

// readForward reads the stored forward, if there can be one. No job or forward is stored under an id above
// newest, so such an id is not looked up.
func (tx *Tx) readForward(h *entryJob) (err error) {
	if h.forwardRead || tx.head.ForwardRecords == 0 || bytes.Compare(h.id[:], tx.s.newest[:]) > 0 {
		return nil
	}
	h.forwardRead = true
	h.forward, err = readForward(tx.s.gen.db, h.id)
	return err
}

// putForward replaces a job's forward; nil removes it.
func (tx *Tx) putForward(h *entryJob, f *Forward) error {
	if err := tx.readForward(h); err != nil {
		return err
	}
	old := h.forward
	h.forward, h.forwardRead = f, true
	if old != nil {
		tx.head.ForwardRecords--
	}
	tx.key = appendForwardKey(tx.key[:0], h.id)
	if f != nil {
		tx.head.ForwardRecords++
		return put(tx.batch, tx.key, f)
	}
	if old != nil {
		return tx.batch.Delete(tx.key, nil)
	}
	return nil
}
