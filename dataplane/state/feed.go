package state

import (
	"cmp"
	"errors"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"github.com/corvo/corvo/dataplane/job"
)

// ErrTrimmed is what a reader of the feed gets that asks for events which have
// been dropped: it must start again from the state itself.
var ErrTrimmed = errors.New("the feed no longer has these events")

// FeedItem is one feed entry and the sequence of its first event.
type FeedItem struct {
	FirstSeq uint64
	Entry    *FeedEntry
}

// event appends to the entry's feed. Every event names its queue: whoever
// follows the feed learns from that which queues' counters have changed.
func (tx *Tx) event(event EventType, queue string, j *job.Job) {
	n := len(tx.feed.Events)
	if n == len(tx.spareEvents) {
		tx.spareEvents = append(tx.spareEvents, new(Event))
	}
	e := tx.spareEvents[n]
	tx.feed.Events = tx.spareEvents[:n+1]
	e.Type, e.Queue = event, queue
	e.JobId, e.JobNumber, e.Attempt, e.FromQueue, e.RecordId, e.Usage = nil, 0, 0, "", nil, nil
	if j != nil {
		e.JobId, e.JobNumber, e.Attempt = j.Id, j.Number, j.Attempt
	}
	tx.head.FeedNextSeq++
}

// unremembered are the events that a job's history leaves out: those that come again
// and again while an attempt runs, those that say only what the next one says as well,
// and those that change nothing of the job.
var unremembered = [...]bool{
	EventType_EVENT_PROGRESS:     true,
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
func (tx *Tx) remember(h *held, event EventType) error {
	if int(event) < len(unremembered) && unremembered[event] {
		return nil
	}
	j := h.job
	if len(j.History)+len(h.room)/4 <= len(h.room) && cap(j.History) < len(h.room) {
		// Most histories are short: they are written into room that is there.
		j.History = append(h.room[:0], j.History...)
	}
	var err error
	j.History, err = job.AppendHistory(j.History, j.CreatedNs, job.PastEvent{Type: uint32(event), AtNs: tx.head.ClockNs, Attempt: j.Attempt})
	return err
}

// Tell appends an event of a job that does not change by it. Its history has it where
// it is one of those: then PutJob must follow.
func (tx *Tx) Tell(event EventType, j *job.Job) {
	tx.event(event, j.Queue, j)
	if h := tx.jobs[job.ID(j.Id)]; h != nil && h.job == j {
		if err := tx.remember(h, event); err != nil {
			tx.fail(fmt.Errorf("event %d of job %x: %w", event, j.Id, err))
		}
	}
}

// recordEvent appends an event of a batch or a schedule, which has its jobs in a
// queue, or in none.
func (tx *Tx) recordEvent(event EventType, queue string, id [16]byte) {
	tx.event(event, queue, nil)
	tx.feed.Events[len(tx.feed.Events)-1].RecordId = id[:]
}

// Events are the entry's events so far, with their sequences. They are the store's:
// nothing of them may be kept.
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

// TrimFeed drops the entries whose events all lie before firstSeq. The running
// entry's own events stay.
func (tx *Tx) TrimFeed(firstSeq uint64) error {
	first, offset, err := tx.trimPoint(firstSeq)
	if err == nil && first > tx.head.FeedFirstSeq {
		// Keys only ever grow, so the range tombstone covers whole files, which
		// are dropped without being read.
		err = tx.batch.DeleteRange(appendFeedKey(nil, 0), appendFeedKey(nil, first), nil)
		tx.head.FeedFirstSeq, tx.head.FeedTrimmedBytes = first, offset
	}
	if err != nil {
		return tx.fail(fmt.Errorf("trim the feed: %w", err))
	}
	return nil
}

// trimPoint is the first sequence of the entry that holds firstSeq, or of the
// running entry where that lies beyond what is stored, and the entry's offset.
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

// feedEntryOf is the stored entry that holds seq.
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

// FeedHeld is how many bytes of entries the feed holds.
func (h *Head) FeedHeld() uint64 { return h.GetFeedBytes() - h.GetFeedTrimmedBytes() }

// FeedWithin is the first sequence of the oldest entry from which on the feed holds at
// most so many bytes.
func (v *Snapshot) FeedWithin(bytes uint64) (seq uint64, err error) {
	if v.head.FeedHeld() <= bytes {
		return v.head.FeedFirstSeq, nil
	}
	from := v.head.FeedBytes - bytes
	// The entries below lo begin too early, those from hi on do not.
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

// Feed yields entries that hold events with sequence >= from, with the sequence
// of their first event. Where events from `from` on have been trimmed it yields
// ErrTrimmed and nothing else.
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
