package event

import (
	"fmt"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// Source is the state that an event is composed from: the last commit, a snapshot, or the running entry. A
// missing record is nil without an error.
type Source interface {
	Job(id job.ID) (*job.Job, error)
	Progress(id job.ID) (*job.Blob, error)
	AttemptError(id job.ID, attempt uint32) (*job.AttemptError, error)
	Batch(id [16]byte) (*state.Batch, error)
	Account(id [16]byte) (*state.Account, error)
	Alert(id [16]byte) (*state.Alert, error)
	Declared(id [16]byte) (*state.Resource, error)
}

var (
	_ Source = (*state.Tx)(nil)
	_ Source = (*state.Snapshot)(nil)
	_ Source = (*state.Store)(nil)
)

// Compose returns an event of the feed as clients receive it, given its sequence and the clock of its entry.
// ok is false if clients do not receive events of this type.
//
// The data contains the facts of the event and of the records it refers to. A late reader of the feed may
// find the job deleted or changed. Facts of an attempt or a state that a later one has replaced are then
// absent; the later one's facts never stand in for them. Values that change in place, such as a job's
// priority, due time and progress, are the latest. From equal states, all replicas compose equal bytes for an
// event.
func Compose(from Source, seq uint64, clockNs int64, e *state.Event) (_ api.Event, ok bool, err error) {
	k := byType[e.GetType()]
	if k == nil {
		return api.Event{}, false, nil
	}
	m := moment{from: from, clockNs: clockNs, event: e}
	out := api.Event{Seq: seq, Type: k.word, Queue: e.Queue, AtNs: clockNs}
	if err := m.read(); err != nil {
		return api.Event{}, false, fmt.Errorf("event %d (%s): %w", seq, k.word, err)
	}
	if len(e.JobId) > 0 {
		out.JobID = m.id.String()
	}
	data := object(make([]byte, 0, 64))
	for _, f := range k.fields {
		value, err := f.value(&m)
		if err != nil {
			return api.Event{}, false, fmt.Errorf("%s of event %d (%s): %w", f.name, seq, k.word, err)
		}
		data.add(f.name, value)
	}
	out.Data = data.end()
	return out, true, nil
}

// moment is an event with the records it refers to.
type moment struct {
	from    Source
	clockNs int64 // time of the event
	event   *state.Event

	id      job.ID
	job     *job.Job // nil if it was deleted or moved to another queue, or if the event is about no job
	batch   *state.Batch
	account *state.Account
	alert   *state.Alert
	webhook *state.Resource
}

// read reads the record that the event refers to.
func (m *moment) read() (err error) {
	e := m.event
	if len(e.JobId) > 0 {
		if m.id, err = job.IDFromBytes(e.JobId); err == nil {
			m.job, err = m.from.Job(m.id)
		}
		if m.job.GetQueue() != e.Queue {
			m.job = nil // it has moved to another queue, and other callers may see the events of that queue
		}
		return err
	}
	if len(e.RecordId) != 16 {
		return nil
	}
	id := [16]byte(e.RecordId)
	switch e.Type {
	case state.EventType_EVENT_BATCH_COMPLETED:
		m.batch, err = m.from.Batch(id)
	case state.EventType_EVENT_BUDGET_ALERT, state.EventType_EVENT_BUDGET_EXCEEDED:
		m.account, err = m.from.Account(id)
	case state.EventType_EVENT_ALERT_FIRED, state.EventType_EVENT_ALERT_RESOLVED:
		m.alert, err = m.from.Alert(id)
	case state.EventType_EVENT_WEBHOOK_DISABLED:
		m.webhook, err = m.from.Declared(id)
	}
	return err
}

// attemptError returns the error of the attempt that ended with the event, or nil if it is not stored. If no
// attempt of the job was running, the error is stored as the next attempt's error.
func (m *moment) attemptError() (*job.AttemptError, error) {
	if m.job == nil {
		return nil, nil
	}
	for _, attempt := range [...]uint32{m.event.Attempt, m.event.Attempt + 1} {
		e, err := m.from.AttemptError(m.id, attempt)
		if err != nil {
			return nil, err
		}
		if e.GetCreatedNs() == m.clockNs {
			return e, nil
		}
	}
	return nil, nil
}

// startedError returns the error of the attempt that began with the event. It returns nil while the attempt
// runs, and if it left no error or the error is not stored. It compares the start, because an attempt that is
// given back leaves its number to the next one.
func (m *moment) startedError() (*job.AttemptError, error) {
	if m.job == nil {
		return nil, nil
	}
	e, err := m.from.AttemptError(m.id, m.event.Attempt)
	if err != nil || e.GetStartedNs() != m.clockNs {
		return nil, err
	}
	return e, nil
}

// retryDelay returns the time from the event to the job's next attempt. ok is false if the attempt was the
// last one, or if the delay is no longer known. No op changes a job's retry policy, so the computed delay is
// the applied one, as long as the attempts are counted from the same base: an op that grants new attempts
// either raises AttemptBase or removes the errors.
func (m *moment) retryDelay() (ms int64, ok bool, err error) {
	e, err := m.attemptError()
	if e == nil || e.Attempt != m.event.Attempt || e.Attempt <= m.job.AttemptBase {
		return 0, false, err
	}
	made := e.Attempt - m.job.AttemptBase
	switch {
	case made >= m.job.Retry.GetMaxAttempts():
		return 0, false, nil
	case m.event.Type == state.EventType_EVENT_RECLAIMED:
		return 0, true, nil // it is pending at once
	}
	return m.job.Retry.VariedDelayMs(m.id, made), true, nil
}

func timeText(ns int64) []byte {
	if ns == 0 {
		return nil
	}
	return quoted(string(api.TimeOf(time.Unix(0, ns))))
}
