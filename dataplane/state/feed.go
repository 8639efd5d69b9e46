package state

import (
	"cmp"
	"errors"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"github.com/corvo/corvo/dataplane/job"
)

// ErrTrimmed is returned to a reader of the feed that asks for trimmed events. The reader must start again
// from the state itself.
var ErrTrimmed = errors.New("the feed no longer has these events")

// FeedItem is one feed entry with the sequence of its first event.
type FeedItem struct {
	FirstSeq uint64
	Entry    *FeedEntry
}

// event appends an event to the entry's feed. An event that changes a queue's counters names the queue, so
// that followers of the feed learn which counters have changed.
func (tx *Tx) event(event EventType, queue string, j *job.Job) {
	n := len(tx.feed.Events)
	if n == len(tx.spareEvents) {
		tx.spareEvents = append(tx.spareEvents, new(Event))
	}
	e := tx.spareEvents[n]
	tx.feed.Events = tx.spareEvents[:n+1]
	e.Type, e.Queue = event, queue
	e.JobId, e.JobNumber, e.Attempt, e.FromQueue, e.RecordId, e.Usage, e.Score = nil, 0, 0, "", nil, nil, nil
	if j != nil {
		e.JobId, e.JobNumber, e.Attempt = j.Id, j.Number, j.Attempt
	}
	tx.head.FeedNextSeq++
}

// unremembered are the events that a job's history leaves out, because they repeat while an attempt runs,
// because the next event implies them, or because they change nothing of the job. Progress repeats too, but
// people ask when a job last progressed, so the history keeps the newest of successive reports.
var unremembered = [...]bool{
	EventType_EVENT_CHECKPOINTED: true,
	EventType_EVENT_RENEWED:      true,
	EventType_EVENT_PROMOTED:     true,
	EventType_EVENT_UNLOCKED:     true,
	EventType_EVENT_UNBLOCKED:    true,
	EventType_EVENT_GATED:        true,
	EventType_EVENT_UNGATED:      true,
	EventType_EVENT_DUPLICATE:    true,
	EventType_EVENT_REPLAYED:     true,
}

// remember adds an event to the history of a job that is about to be stored.
func (tx *Tx) remember(h *entryJob, event EventType) error {
	if int(event) < len(unremembered) && unremembered[event] {
		return nil
	}
	j := h.job
	if len(j.History)+len(h.room)/4 <= len(h.room) && cap(j.History) < len(h.room) {
		// Most histories are short, so they are written into memory that is already allocated.
		j.History = append(h.room[:0], j.History...)
	}
	var err error
	if event == EventType_EVENT_PROGRESS {
		if j.History, err = job.DropRepeated(j.History, uint32(event), j.Attempt); err != nil {
			return err
		}
	}
	j.History, err = job.AppendHistory(j.History, j.CreatedNs, job.PastEvent{Type: uint32(event), AtNs: tx.head.ClockNs, Attempt: j.Attempt})
	return err
}

// AddEvent appends an event of j to the feed and, if j's history records events of this type, to the history;
// then PutJob must follow.
func (tx *Tx) AddEvent(event EventType, j *job.Job) {
	tx.event(event, j.Queue, j)
	if h := tx.jobs[job.ID(j.Id)]; h != nil && h.job == j {
		if err := tx.remember(h, event); err != nil {
			tx.fail(fmt.Errorf("event %d of job %x: %w", event, j.Id, err))
		}
	}
}

// AddScored appends the event of a new score of j. PutJob must follow. The event holds the score, because
// several scores of j may have the same time, and a later one of the same dimension and scorer replaces s.
func (tx *Tx) AddScored(j *job.Job, s *job.Score) {
	tx.AddEvent(EventType_EVENT_SCORED, j)
	tx.feed.Events[len(tx.feed.Events)-1].Score = s
}

// recordEvent appends an event of a record other than a job. queue is the queue of the record's jobs, or
// empty.
func (tx *Tx) recordEvent(event EventType, queue string, id [16]byte) {
	tx.event(event, queue, nil)
	tx.feed.Events[len(tx.feed.Events)-1].RecordId = id[:]
}

// Events yields the entry's events so far, with their sequences. The events belong to the store; the caller
// must not keep them.
func (tx *Tx) Events() iter.Seq2[uint64, *Event] {
	return func(yield func(uint64, *Event) bool) {
		first := tx.head.FeedNextSeq - uint64(len(tx.feed.Events))
		for i, e := range tx.feed.Events {
			if !yield(first+uint64(i), e) {
				return
			}
		}
	}
}

// encodeFeed writes the entry's events as one record.
func (tx *Tx) encodeFeed() error {
	n := uint64(len(tx.feed.Events))
	if n == 0 {
		return nil
	}
	tx.key = appendFeedKey(tx.key[:0], tx.head.FeedNextSeq-n)
	tx.feed.Offset = tx.head.FeedBytes
	value, err := encode(tx.batch, tx.key, &tx.feed)
	tx.head.FeedBytes += uint64(len(tx.key) + len(value))
	return err
}

// TrimFeed drops the entries whose events all lie before firstSeq. The running entry's own events stay.
func (tx *Tx) TrimFeed(firstSeq uint64) error {
	first, offset, err := tx.trimPoint(firstSeq)
	if err == nil && first > tx.head.FeedFirstSeq {
		// Keys only ever grow, so the range tombstone covers whole files, which Pebble drops without reading
		// them.
		err = tx.batch.DeleteRange(appendFeedKey(nil, 0), appendFeedKey(nil, first), nil)
		tx.head.FeedFirstSeq, tx.head.FeedTrimmedBytes = first, offset
	}
	if err != nil {
		return tx.fail(fmt.Errorf("trim the feed: %w", err))
	}
	return nil
}

// trimPoint returns the first sequence and the offset of the entry that holds firstSeq, or of the running
// entry if firstSeq lies beyond the stored ones.
func (tx *Tx) trimPoint(firstSeq uint64) (first, offset uint64, err error) {
	if stored := tx.head.FeedNextSeq - uint64(len(tx.feed.Events)); firstSeq >= stored {
		return stored, tx.head.FeedBytes, nil
	}
	if firstSeq <= tx.head.FeedFirstSeq {
		return tx.head.FeedFirstSeq, tx.head.FeedTrimmedBytes, nil
	}
	item, err := feedEntryOf(tx.s.gen.db, tx.head.FeedFirstSeq, firstSeq)
	return item.FirstSeq, item.Entry.GetOffset(), err
}

// feedEntryOf returns the stored entry that holds seq, in a feed that begins at oldest. seq must be stored.
func feedEntryOf(r source, oldest, seq uint64) (item FeedItem, err error) {
	it, err := r.NewIter(&pebble.IterOptions{
		LowerBound: appendFeedKey(nil, oldest),
		UpperBound: appendFeedKey(nil, seq+1),
	})
	if err != nil {
		return item, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	if !it.Last() {
		return item, cmp.Or(it.Error(), fmt.Errorf("no feed entry holds sequence %d", seq))
	}
	if item.FirstSeq, err = decodeFeedKey(it.Key()); err != nil {
		return item, err
	}
	item.Entry = &FeedEntry{}
	return item, decode(KV{it.Key(), it.Value()}, item.Entry)
}

// FeedHeld returns the size of the stored feed in bytes.
func (h *Head) FeedHeld() uint64 { return h.GetFeedBytes() - h.GetFeedTrimmedBytes() }

// FeedWithin returns the sequence that TrimFeed needs so that the feed holds at most the given bytes. It is
// the first sequence of an entry, or the next event's if the last entry alone is larger.
func (v *Snapshot) FeedWithin(bytes uint64) (seq uint64, err error) {
	if v.head.FeedHeld() <= bytes {
		return v.head.FeedFirstSeq, nil
	}
	from := v.head.FeedBytes - bytes
	// Invariant: the entries below lo begin too early, those from hi on do not.
	lo, hi := v.head.FeedFirstSeq, v.head.FeedNextSeq
	for lo < hi {
		item, err := feedEntryOf(v.snap, v.head.FeedFirstSeq, lo+(hi-lo)/2)
		if err != nil {
			return 0, err
		}
		if item.Entry.Offset < from {
			lo = item.FirstSeq + uint64(len(item.Entry.Events))
		} else {
			hi = item.FirstSeq
		}
	}
	return lo, nil
}

// Feed yields the entries that hold events with sequence >= from, in order. The first entry may begin before
// from. If events from `from` on have been trimmed, Feed yields an error that wraps ErrTrimmed and nothing
// else.
func (v *Snapshot) Feed(from uint64) iter.Seq2[FeedItem, error] {
	return func(yield func(FeedItem, error) bool) {
		if max(from, 1) < v.head.FeedFirstSeq {
			yield(FeedItem{}, fmt.Errorf("%w: %d is before %d", ErrTrimmed, from, v.head.FeedFirstSeq))
			return
		}
		if from >= v.head.FeedNextSeq || v.head.FeedFirstSeq == v.head.FeedNextSeq {
			return
		}
		start, err := feedEntryOf(v.snap, v.head.FeedFirstSeq, max(from, 1))
		if err != nil {
			yield(FeedItem{}, err)
			return
		}
		for kv, err := range scanPairs(v.snap, appendFeedKey(nil, start.FirstSeq), afterPrefix(prefixFeed)) {
			item := FeedItem{Entry: &FeedEntry{}}
			if err == nil {
				item.FirstSeq, err = decodeFeedKey(kv.Key)
			}
			if err == nil {
				err = decode(kv, item.Entry)
			}
			if !yield(item, err) || err != nil {
				return
			}
		}
	}
}
