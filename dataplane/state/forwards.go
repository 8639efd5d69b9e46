package state

import (
	"bytes"
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
)

// Forwarded is where a job went when it left this shard last, as of the last
// commit; nil where it never did, or is here again.
//
// Whoever looks for a job begins at the shard of its birth and follows the
// forwards: each one's move is above the one's before, so a walk visits a shard
// once at most. Where it comes to a shard that has neither the job nor such a
// forward, the job is on its way there: it will be found a moment later.
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

// Forwarded is where a job went when it left this shard last; nil where it never
// did, or is here again.
func (v *Snapshot) Forwarded(id job.ID) (*Forward, error) { return readForward(v.snap, id) }

func readForward(r source, id job.ID) (*Forward, error) {
	f := &Forward{}
	if found, err := get(r, appendForwardKey(nil, id), f); !found {
		return nil, err
	}
	return f, nil
}

// Forwarded is where a job went when it left this shard last; nil where it never
// did, or is here again. Read only.
func (tx *Tx) Forwarded(id job.ID) (*Forward, error) {
	h, err := tx.hold(id)
	if err == nil {
		err = tx.readForward(h)
	}
	if err != nil {
		return nil, tx.fail(fmt.Errorf("forward of job %s: %w", id, err))
	}
	return h.forward, nil
}

// readForward reads the stored forward, if there may be one: ids above all that
// are stored are those of new jobs, and are not looked for.
func (tx *Tx) readForward(h *held) (err error) {
	if h.forwardRead || tx.head.ForwardRecords == 0 || bytes.Compare(h.id[:], tx.s.newest[:]) > 0 {
		return nil
	}
	h.forwardRead = true
	h.forward, err = readForward(tx.s.gen.db, h.id)
	return err
}

// putForward replaces a job's forward; nil is none.
func (tx *Tx) putForward(h *held, f *Forward) error {
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
