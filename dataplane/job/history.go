package job

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A job's history lies in its record, and is written with it: a few bytes for each
// event, for every job has one. Each is a varint of what happened (as the feed numbers
// it), one of when, in nanoseconds since the job was created, and one of the attempt.
//
// A history has at most MaxHistory events. Of one that would have more the first
// MaxHistoryHead stay and the last ones: in between lies a gap, an event of the number
// 0 whose attempt is how many there were.

// PastEvent is an event of a job's history.
type PastEvent struct {
	Type    uint32 // as the feed numbers it
	AtNs    int64
	Attempt uint32 // attempts counted then
}

// gap is the number of the event that stands for those that are not kept.
const gap = 0

var errHistory = errors.New("the history breaks off, or is none")

// AppendHistory is a history with one more event, which must have a number; created is
// when its job was made. The result may share the memory of the history, and uses its
// room.
func AppendHistory(history []byte, createdNs int64, e PastEvent) ([]byte, error) {
	history = appendPast(history, e.Type, e.AtNs-createdNs, uint64(e.Attempt))
	if len(history) <= MaxHistory*leastPast {
		return history, nil // there cannot be more
	}
	return bound(history)
}

// leastPast is the least that an event takes, in bytes.
const leastPast = 3

func appendPast(b []byte, event uint32, sinceNs int64, attempt uint64) []byte {
	return binary.AppendUvarint(binary.AppendVarint(binary.AppendUvarint(b, uint64(event)), sinceNs), attempt)
}

// nextPast is the first event of a history, and how many bytes it takes: 0 for none.
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

// bound takes the oldest event behind the first ones out of a history that has one too
// many, and counts it.
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

// skip is how many bytes the first n events take, or all if there are fewer.
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

// PastEvents is a job's history, oldest first, and how many events there were besides,
// behind the first MaxHistoryHead of them.
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
