package job

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A job's history is a part of its record. Every job has one, so an event takes only a few bytes. Each event
// is three varints: its type (as in the feed), its time in nanoseconds since the job was created, and the
// attempt.
//
// A history has at most MaxHistory events. After more events it keeps the first MaxHistoryHead and the last
// ones. Between them is a gap: an event of type 0 whose attempt is the number of dropped events.

// PastEvent is an event of a job's history.
type PastEvent struct {
	Type    uint32 // as the feed numbers it
	AtNs    int64
	Attempt uint32 // number of attempts counted by then
}

// gap is the type of the event that stands for dropped events.
const gap = 0

var errHistory = errors.New("the history breaks off, or is none")

// AppendHistory adds an event, whose type must not be 0, to a history. createdNs is the creation of its job.
// The result may share the memory of the history and use its spare capacity.
func AppendHistory(history []byte, createdNs int64, e PastEvent) ([]byte, error) {
	history = appendPast(history, e.Type, e.AtNs-createdNs, uint64(e.Attempt))
	if len(history) <= MaxHistory*leastPast {
		return history, nil // it is too short for more than MaxHistory events
	}
	return bound(history)
}

// leastPast is the smallest size of an event in bytes.
const leastPast = 3

func appendPast(b []byte, event uint32, sinceNs int64, attempt uint64) []byte {
	return binary.AppendUvarint(binary.AppendVarint(binary.AppendUvarint(b, uint64(event)), sinceNs), attempt)
}

// nextPast decodes the first event of a history and returns its size in bytes, or 0 if there is none.
func nextPast(b []byte) (event uint64, sinceNs int64, attempt uint64, size int) {
	event, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, 0, 0, 0
	}
	size = n
	if sinceNs, n = binary.Varint(b[size:]); n <= 0 {
		return 0, 0, 0, 0
	}
	size += n
	if attempt, n = binary.Uvarint(b[size:]); n <= 0 {
		return 0, 0, 0, 0
	}
	return event, sinceNs, attempt, size + n
}

// bound drops the oldest event after the head from a history that has one too many, and counts it in the gap.
func bound(history []byte) ([]byte, error) {
	head, err := skip(history, MaxHistoryHead)
	if err != nil || head == len(history) {
		return history, err
	}
	last, dropped := history[head:], uint64(0)
	if event, _, count, size := nextPast(last); size > 0 && event == gap {
		last, dropped = last[size:], count
	}
	switch end, err := skip(last, MaxHistory-MaxHistoryHead); {
	case err != nil:
		return nil, err
	case end == len(last):
		return history, nil
	}
	first, err := skip(last, 1)
	if err != nil {
		return nil, err
	}
	short := make([]byte, 0, len(history)+binary.MaxVarintLen64)
	short = appendPast(append(short, history[:head]...), gap, 0, dropped+1)
	return append(short, last[first:]...), nil
}

// skip returns the size in bytes of the first n events, or of all if there are fewer.
func skip(history []byte, n int) (at int, err error) {
	for ; n > 0 && at < len(history); n-- {
		_, _, _, size := nextPast(history[at:])
		if size == 0 {
			return 0, errHistory
		}
		at += size
	}
	return at, nil
}

// DropRepeated drops the newest event of a history if it has the type and the attempt. An event that repeats
// while an attempt runs is then in the history once, with its newest time.
func DropRepeated(history []byte, event, attempt uint32) ([]byte, error) {
	last := 0
	for at := 0; at < len(history); {
		_, _, _, size := nextPast(history[at:])
		if size == 0 {
			return nil, errHistory
		}
		last, at = at, at+size
	}
	if is, _, of, _ := nextPast(history[last:]); is != uint64(event) || of != uint64(attempt) {
		return history, nil
	}
	return history[:last], nil
}

// PastEvents returns a job's history, the oldest first, and the number of events dropped after the first
// MaxHistoryHead.
func (j *Job) PastEvents() (events []PastEvent, dropped uint64, err error) {
	for b := j.GetHistory(); len(b) > 0; {
		event, sinceNs, attempt, size := nextPast(b)
		if size == 0 || event > 1<<31 || event != gap && attempt > 1<<31 {
			return nil, 0, fmt.Errorf("job %x: %w", j.Id, errHistory)
		}
		if event == gap {
			if len(events) != MaxHistoryHead || dropped > 0 || attempt == 0 {
				return nil, 0, fmt.Errorf("job %x: %w: a gap is where none is made", j.Id, errHistory)
			}
			dropped = attempt
		} else {
			events = append(events, PastEvent{uint32(event), j.CreatedNs + sinceNs, uint32(attempt)})
		}
		b = b[size:]
	}
	return events, dropped, nil
}
