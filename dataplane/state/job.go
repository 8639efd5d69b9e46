package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/engine/entry"
)

// Job returns a job as the entry's earlier ops left it, or nil if there is none. Once the op has decided not
// to refuse, it may change the job in place and must then call PutJob.
func (tx *Tx) Job(id job.ID) (*job.Job, error) {
	h, err := tx.entryJob(id)
	if err != nil {
		return nil, err
	}
	return h.job, nil
}

// entryJob returns the entry's copy of a job and reads it from the store the first time.
func (tx *Tx) entryJob(id job.ID) (*entryJob, error) {
	if h := tx.jobs[id]; h != nil {
		return h, nil
	}
	var h *entryJob
	if n := len(tx.spareJobs); n > 0 {
		h, tx.spareJobs = tx.spareJobs[n-1], tx.spareJobs[:n-1]
	} else {
		h = new(entryJob)
	}
	h.id = id
	if err := tx.load(h); err != nil {
		return nil, tx.fail(fmt.Errorf("job %s: %w", id, err))
	}
	tx.jobs[id] = h
	tx.order = append(tx.order, h)
	return h, nil
}

// load reads the stored job, if there is one. An id begins with its creation time, so a new job mostly has a
// greater id than every stored one. Such an id is not in the store, and load does not look it up.
func (tx *Tx) load(h *entryJob) error {
	if bytes.Compare(h.id[:], tx.s.newest[:]) > 0 {
		return nil
	}
	j, err := tx.readJob(h.id)
	if err != nil || j == nil {
		return err
	}
	ix, err := derive(j)
	if err != nil {
		return err
	}
	q := tx.s.queues[j.Queue]
	if q == nil {
		return fmt.Errorf("its queue %q is unknown", j.Queue)
	}
	h.job, h.queue, h.stored, h.now = j, q, ix, ix
	return nil
}

// CreateJob numbers a new job (j.Number), counts it in its queue, and stores it with at least one event. No
// job or Forward may have its id, and no other job its unique or debounce key. The queue is created if
// necessary; the op must have checked CanAddQueues. The Tx owns the job from then on.
func (tx *Tx) CreateJob(j *job.Job, events ...EventType) error {
	if err := tx.createJob(j, events); err != nil {
		return tx.fail(fmt.Errorf("create job %x in queue %q: %w", j.Id, j.Queue, err))
	}
	return nil
}

func (tx *Tx) createJob(j *job.Job, events []EventType) error {
	h, err := tx.newEntryJob(j)
	if err != nil {
		return err
	}
	if err := tx.readForward(h); err != nil {
		return err
	}
	if h.forward != nil {
		return fmt.Errorf("it has gone to shard %d", h.forward.Shard)
	}
	tx.number(j)
	h.job, h.queue = j, tx.ensure(j.Queue)
	h.now.number = j.Number
	return tx.change(h, events)
}

// newEntryJob returns the entry's record for a job that must not exist yet.
func (tx *Tx) newEntryJob(j *job.Job) (*entryJob, error) {
	id, err := job.IDFromBytes(j.Id)
	if err != nil {
		return nil, err
	}
	h, err := tx.entryJob(id)
	if err != nil {
		return nil, err
	}
	if h.job != nil {
		return nil, errors.New("it exists")
	}
	return h, nil
}

// number gives a job the next number of the shard.
func (tx *Tx) number(j *job.Job) {
	j.Number = tx.head.NextJobNumber
	tx.head.NextJobNumber++
}

// PutJob stores a changed job that Job returned or that the entry created or admitted: it updates the queue's
// counters, appends the events to the feed and to the job's history, and has Commit move the job's derived
// keys. A job that is no longer pending leaves its gate. EVENT_FAILED and EVENT_RECLAIMED also count a failed
// attempt, one for both. A new state needs an event, because readers of the feed would miss a change without
// one. If the attempt ends, the op must have cleared the lease's reservation and charge. If the job settles,
// the op must have counted it in its batch, advanced its chain and marked its dependents as due. The job's
// id, number and queue are fixed.
func (tx *Tx) PutJob(j *job.Job, events ...EventType) error {
	if err := tx.putJob(j, events); err != nil {
		return tx.fail(fmt.Errorf("put job %x: %w", j.Id, err))
	}
	return nil
}

func (tx *Tx) putJob(j *job.Job, events []EventType) error {
	id, err := job.IDFromBytes(j.Id)
	if err != nil {
		return err
	}
	h := tx.jobs[id]
	switch {
	case h == nil || h.job == nil:
		return fmt.Errorf("the entry has not read it")
	case j.Queue != h.queue.rec.Name:
		return fmt.Errorf("its queue was %q and is %q", h.queue.rec.Name, j.Queue)
	case j.Number != h.now.number:
		return fmt.Errorf("its number was %d and is %d", h.now.number, j.Number)
	}
	h.job = j
	return tx.change(h, events)
}

// change updates everything that derives from a job, except the keys that Commit writes.
func (tx *Tx) change(h *entryJob, events []EventType) error {
	to, err := derive(h.job)
	if err != nil {
		return err
	}
	if h.now.state != to.state && len(events) == 0 {
		return fmt.Errorf("it goes from %q to %q without an event", h.now.state.Word(), to.state.Word())
	}
	if h.now.state == job.Active && to.state != job.Active && (h.job.Lease.GetReservation() != nil || h.job.Lease.GetChargedNs() != 0) {
		return fmt.Errorf("its attempt ends, and it has not given up what it claimed")
	}
	if to.state != job.Pending && h.job.Detail.GetGate() != job.Gate_GATE_NONE {
		h.job.Detail.Gate, h.job.Detail.GateName = job.Gate_GATE_NONE, "" // only a pending job waits at a gate
	}
	if !h.now.state.Settled() && to.state.Settled() {
		if owed := tx.owes(h.job); owed != "" {
			return fmt.Errorf("it settles, and %s", owed)
		}
	}
	if err := tx.count(h.queue, h.now.state, to.state); err != nil {
		return err
	}
	if h.now.state == job.Active && to.state != job.Active {
		tx.countActive(h)
	}
	if err := tx.rederive(h, to); err != nil {
		return err
	}
	failed := uint64(0)
	for _, event := range events {
		if event == EventType_EVENT_FAILED || event == EventType_EVENT_RECLAIMED {
			failed = 1 // an attempt ends once, however many events say so
		}
		tx.event(event, h.job.Queue, h.job)
		if err := tx.remember(h, event); err != nil {
			return err
		}
	}
	h.queue.rec.Failed += failed
	return nil
}

// rederive updates memory and locks when a job goes from one index to another. The zero index stands for a
// job that is in no queue.
func (tx *Tx) rederive(h *entryJob, to index) error {
	// Gates come first, because the counts of a queue's first lanes leave out the jobs at gates.
	if err := tx.moveGate(h, to); err != nil {
		return err
	}
	if h.queue.lanes != nil || to.key != "" {
		if err := tx.moveLane(h, to); err != nil {
			return err
		}
	} else if err := h.queue.moveReady(h.id, h.now, to, tx.s.options.headsKept); err != nil {
		return err
	}
	if err := tx.moveLocks(h, to); err != nil {
		return err
	}
	tx.s.leases.move(h.now, to, h.id)
	h.now, h.dirty = to, true
	return nil
}

// owes returns what a settling job still owes to its batch, its chain or the jobs that wait for it, or "". If
// an op forgot one of these, the forgotten batch, chain or job would wait for ever, unnoticed.
func (tx *Tx) owes(j *job.Job) string {
	switch {
	case j.Batch != nil && !j.Batch.Counted:
		return "its batch has not counted it"
	case j.Chain != nil && !j.Chain.Ended:
		return "its chain has not gone on"
	case j.HasDependents && !tx.dependentsSettled(job.ID(j.Id)):
		return "those who wait for it have not been told"
	}
	return ""
}

// DeleteErrors removes the errors of a job and sets j.Errors to 0; PutJob must follow.
func (tx *Tx) DeleteErrors(j *job.Job) error {
	err := tx.deleteErrors(j)
	if err != nil {
		return tx.fail(fmt.Errorf("delete the errors of job %x: %w", j.Id, err))
	}
	return nil
}

func (tx *Tx) deleteErrors(j *job.Job) error {
	id, err := job.IDFromBytes(j.Id)
	if err != nil {
		return err
	}
	h, err := tx.entryJob(id)
	if err == nil {
		err = tx.readAttempts(h, j)
	}
	if err == nil {
		err = tx.removeErrors(h)
	}
	j.Errors = 0
	return err
}

// DeleteBlob removes one of the job's blobs, if it has it; PutJob must follow.
func (tx *Tx) DeleteBlob(j *job.Job, kind job.BlobKind) error {
	if j.Blobs&(1<<kind) == 0 {
		return nil
	}
	id, err := job.IDFromBytes(j.Id)
	if err == nil {
		err = tx.deleteBlob(id, kind)
	}
	if err != nil {
		return tx.fail(fmt.Errorf("delete a blob of job %x: %w", j.Id, err))
	}
	j.Blobs &^= 1 << kind
	return nil
}

// NewID creates the id of a job that the entry itself creates in queue. It derives from the entry's clock and
// seed and the number of earlier ids, so every replica creates the same id.
func (tx *Tx) NewID(queue string) job.ID {
	var material [len(entry.Seed{}) + 8]byte
	copy(material[:], tx.header.Seed[:])
	binary.BigEndian.PutUint64(material[len(entry.Seed{}):], tx.idsCreated)
	tx.idsCreated++
	sum := sha256.Sum256(material[:])
	return job.NewID(tx.ClockNs()/int64(time.Millisecond), queue, job.Entropy(sum[:len(job.Entropy{})]))
}

// encodeJobs writes the changed jobs and moves their derived keys, one kind of key after another, because
// Pebble writes neighbouring keys faster. Ready keys keep the order in which ops first used the jobs, which
// is mostly the order of their numbers. All other keys are sorted by job id, because the ids of jobs created
// together have no order.
func (tx *Tx) encodeJobs() error {
	for _, h := range tx.order {
		if !h.dirty {
			continue
		}
		tx.byID = append(tx.byID, h)
		if err := tx.encodeReady(h); err != nil {
			return err
		}
	}
	slices.SortFunc(tx.byID, func(a, b *entryJob) int { return bytes.Compare(a.id[:], b.id[:]) })
	for _, encode := range [...]func(*entryJob) error{tx.dropTimers, tx.setTimers, tx.moveSettled, tx.encodeJob} {
		for _, h := range tx.byID {
			if err := encode(h); err != nil {
				return err
			}
		}
	}
	return nil
}

// encodeJob writes a changed job, or removes a deleted one.
func (tx *Tx) encodeJob(h *entryJob) error {
	if bytes.Compare(h.id[:], tx.newest[:]) > 0 {
		tx.newest = h.id
	}
	if h.job != nil {
		h.job.Tidy()
		if now, err := derive(h.job); err != nil || now != h.now {
			return fmt.Errorf("job %s was changed and not put (%v)", h.id, err)
		}
	}
	var err error
	tx.key = appendJobKey(tx.key[:0], h.id)
	switch {
	case h.job != nil:
		h.record, err = encode(tx.batch, tx.key, h.job)
		return err
	case h.stored.state != 0:
		return tx.batch.Delete(tx.key, nil)
	}
	return nil
}

// encodeReady moves the ready key or the gate key of a job.
//
// It removes derived keys by SingleDelete. A derived key is set only if the stored job has none and removed
// only if it has one, so sets and removals of a key alternate. Such a pair vanishes as soon as a flush or
// compaction sees both, mostly in memory. An ordinary tombstone would sink to the bottom of the store, and
// reads would walk over it until then.
func (tx *Tx) encodeReady(h *entryJob) error {
	was, is := h.stored, h.now
	if !was.readyAs(is) {
		if was.ready {
			tx.key = appendReadyOf(tx.key[:0], was.queue, was.key, was.priority, was.number)
			if err := tx.batch.SingleDelete(tx.key, nil); err != nil {
				return err
			}
		}
		if is.ready {
			tx.key = appendReadyOf(tx.key[:0], is.queue, is.key, is.priority, is.number)
			if err := tx.batch.Set(tx.key, h.id[:], nil); err != nil {
				return err
			}
		}
	}
	return tx.encodeGate(was, is, h.id)
}

// dropTimers removes the keys of timers that a job no longer has; setTimers writes the keys of its new
// timers. They are two passes because a job that fails swaps its lease timer for its retry timer: in one
// pass, writes would alternate between two distant places.
func (tx *Tx) dropTimers(h *entryJob) error {
	was, is := h.stored.timers(), h.now.timers()
	for i := range is {
		if err := tx.dropTimer(was[i], is[i], h.id); err != nil {
			return err
		}
	}
	return nil
}

func (tx *Tx) setTimers(h *entryJob) error {
	was, is := h.stored.timers(), h.now.timers()
	for i := range is {
		if err := tx.setTimer(was[i], is[i], h.id); err != nil {
			return err
		}
	}
	return nil
}

// moveTimer replaces a timer of id by another; the zero timer is none.
func (tx *Tx) moveTimer(was, is timer, id [16]byte) error {
	if err := tx.dropTimer(was, is, id); err != nil {
		return err
	}
	return tx.setTimer(was, is, id)
}

func (tx *Tx) dropTimer(was, is timer, id [16]byte) error {
	if was == is || was.class == 0 {
		return nil
	}
	tx.key = appendTimerKey(tx.key[:0], was, id)
	return tx.batch.SingleDelete(tx.key, nil)
}

func (tx *Tx) setTimer(was, is timer, id [16]byte) error {
	if was == is || is.class == 0 {
		return nil
	}
	tx.earliest[is.class] = min(tx.earliest[is.class], is.dueNs)
	tx.key = appendTimerKey(tx.key[:0], is, id)
	return tx.batch.Set(tx.key, nil, nil)
}

// PutBlob stores one of the job's blobs and marks it in j.Blobs; PutJob, CreateJob or AdmitJob must follow.
func (tx *Tx) PutBlob(j *job.Job, kind job.BlobKind, b *job.Blob) error {
	id, err := job.IDFromBytes(j.Id)
	if err == nil && kind >= job.BlobKinds {
		err = fmt.Errorf("kind %d is none", kind)
	}
	if err == nil {
		err = tx.putBlob(id, kind, b)
	}
	if err != nil {
		return tx.fail(fmt.Errorf("put a blob of job %x: %w", j.Id, err))
	}
	j.Blobs |= 1 << kind
	tx.documents += uint64(len(b.Data))
	return nil
}

// PutError stores an attempt's error under its attempt number, in place of an earlier one of that attempt,
// and counts it in j.Errors; PutJob or AdmitJob must follow. If the job already has the errors of
// job.MaxErrorsKept other attempts, the one of the highest attempt is removed.
func (tx *Tx) PutError(j *job.Job, e *job.AttemptError) error {
	if err := tx.putError(j, e); err != nil {
		return tx.fail(fmt.Errorf("put an error of job %x: %w", j.Id, err))
	}
	return nil
}

func (tx *Tx) putError(j *job.Job, e *job.AttemptError) error {
	id, err := job.IDFromBytes(j.Id)
	if err != nil {
		return err
	}
	h, err := tx.entryJob(id)
	if err != nil {
		return err
	}
	if err := tx.readAttempts(h, j); err != nil {
		return err
	}
	at, found := slices.BinarySearch(h.attempts, e.Attempt)
	if !found {
		if last := len(h.attempts) - 1; last+1 >= job.MaxErrorsKept {
			tx.key = appendErrorKey(tx.key[:0], id, h.attempts[last])
			if err := tx.batch.Delete(tx.key, nil); err != nil {
				return err
			}
			h.attempts = h.attempts[:last]
			at = min(at, last)
		}
		h.attempts = slices.Insert(h.attempts, at, e.Attempt)
	}
	j.Errors = uint32(len(h.attempts))
	tx.key = appendErrorKey(tx.key[:0], id, e.Attempt)
	return put(tx.batch, tx.key, e)
}

// readAttempts finds out which attempts of a job have an error record, so that the count stays right even if
// an attempt fails twice.
func (tx *Tx) readAttempts(h *entryJob, j *job.Job) error {
	if h.attemptsRead {
		return nil
	}
	h.attemptsRead = true
	if j.Errors == 0 {
		return nil
	}
	for attempt, err := range scanAttempts(tx.s.gen.db, h.id) {
		if err != nil {
			return err
		}
		h.attempts = append(h.attempts, attempt)
	}
	if len(h.attempts) != int(j.Errors) {
		return fmt.Errorf("it has %d error records and counts %d", len(h.attempts), j.Errors)
	}
	return nil
}
