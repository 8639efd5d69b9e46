package server

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/state"
)

// These bounds of one read keep a snapshot open only briefly and the answer small. eventBatchSeen and
// eventBatchBytes count for each shard. The event that reaches eventBatchBytes is the shard's last in that
// read.
const (
	eventBatch      = 256      // events that a stream shows; a page shows up to its limit
	eventBatchSeen  = 4096     // events that the reader examines in the store
	eventBatchBytes = 64 << 10 // bytes of data
)

// eventReader reads the feeds of a namespace's shards from a position. An event has the same sequence on
// every replica, so a position is valid on every node.
type eventReader struct {
	query *eventQuery
	cells []*cell.Cell
	at    seqs

	hub    *eventHub // shared with other streams; nil for a reader of one page
	lag    uint64    // events that a stream may be behind after it has been up to date
	upTo   []bool    // by shard: the stream has been up to date; nil for a reader of one page
	cost   int64     // bytes of the stream's rate used by reading
	resets uint64    // number of RESET events

	oldest bool // the reader begins with the oldest stored events and reports no RESET for the trimmed ones before them
}

// settle checks that the position is not after this node's last event. If it is, this node may lag, so settle
// waits until this node has the leader's state, and fails if ctx ends first. A position that is then still
// after the last event belongs to another history, and the next read begins with a RESET.
func (x *eventReader) settle(ctx context.Context) error {
	for i, c := range x.cells {
		if x.at[i] < c.State().Head().FeedNextSeq {
			continue
		}
		if err := c.Verify(ctx); err != nil {
			return unverified(ctx, err)
		}
	}
	return nil
}

// read returns the next visible events, limited to most, and whether there may be more. It moves the reader's
// position after them. Each shard gets an equal share, so that a busy shard does not delay the others. If
// there are more shards than most, the first shards with events use up the limit.
func (x *eventReader) read(most int) (events []shownEvent, more bool, err error) {
	share := max(most/len(x.cells), 1)
	for i := range x.cells {
		if len(events) >= most {
			return events, true, nil
		}
		part, rest, err := x.readShard(i, share)
		if err != nil {
			return nil, false, err
		}
		events, more = append(events, part...), more || rest
	}
	return events, more, nil
}

func (x *eventReader) readShard(shard, most int) (events []shownEvent, more bool, err error) {
	c := x.cells[shard]
	head := c.State().Head()
	if why := x.lost(shard, head); why != "" {
		events = append(events, x.reset(c, shard, why))
	}
	upTo := uint64(math.MaxUint64)
	if x.hub != nil {
		buffer := x.hub.buffer()
		defer x.hub.reuse(buffer)
		batch, to, ok, err := x.hub.rings[shard].after(x.at[shard], *buffer)
		if err != nil {
			return nil, false, err
		}
		if ok {
			return x.readRing(c, shard, most, batch, to, events)
		}
		upTo = to
	}
	return x.readFeed(c, shard, most, upTo, events)
}

// lost returns the reason why the client misses events of a shard, or "" if it misses none: the next events
// were trimmed, the position belongs to another history, or the stream lags too far behind. If the
// reader cannot continue from its position, lost also moves the position.
func (x *eventReader) lost(shard int, head *state.Head) (why string) {
	next := x.at[shard] + 1
	if next < head.FeedFirstSeq || next > head.FeedNextSeq {
		begins := x.oldest && x.at[shard] == 0
		x.at[shard] = head.FeedFirstSeq - 1
		if begins {
			return ""
		}
		return api.ResetTrimmed
	}
	if x.upTo == nil {
		return ""
	}
	// A client that asked for old events may be as far behind as it likes. A client that was up to date and
	// cannot keep pace would never catch up.
	if x.upTo[shard] && head.FeedNextSeq-next > x.lag {
		x.at[shard] = head.FeedNextSeq - 1
		return api.ResetLag
	}
	x.upTo[shard] = x.upTo[shard] || next == head.FeedNextSeq
	return ""
}

// readRing selects events from batch, which all streams of the shard share. to is the position after the
// batch.
func (x *eventReader) readRing(c *cell.Cell, shard, most int, batch []*sharedEvent, to uint64, events []shownEvent) (_ []shownEvent, more bool, err error) {
	v := lateSnapshot{of: c}
	defer func() { err = errors.Join(err, v.close()) }()
	size := 0
	for _, e := range batch {
		if len(events) >= most || size >= eventBatchBytes {
			return events, true, nil
		}
		x.cost += eventLookCost
		if events, size, err = x.show(&v, shard, e, events, size); err != nil {
			return nil, false, err
		}
	}
	x.at[shard] = to
	return events, to+1 < c.State().Head().FeedNextSeq, nil
}

// readFeed reads events from the store, for a page or for a stream that needs older events than the ring has.
// It stops before upTo, the ring's first event, so that the stream continues with the ring.
func (x *eventReader) readFeed(c *cell.Cell, shard, most int, upTo uint64, events []shownEvent) (_ []shownEvent, more bool, err error) {
	v := lateSnapshot{of: c}
	defer func() { err = errors.Join(err, v.close()) }()
	seen, size := 0, 0
	for item, err := range v.snapshot().Feed(x.at[shard] + 1) {
		if errors.Is(err, state.ErrTrimmed) {
			return events, true, nil // trimmed after the head was read; the next read continues after the gap
		}
		if err != nil {
			return nil, false, fmt.Errorf("feed of shard %d: %w", shard, err)
		}
		for n, e := range item.Entry.Events {
			seq := item.FirstSeq + uint64(n)
			if seq <= x.at[shard] {
				continue
			}
			if seq >= upTo || len(events) >= most || seen >= eventBatchSeen || size >= eventBatchBytes {
				return events, true, nil
			}
			seen++
			x.cost += eventReadCost
			if events, size, err = x.show(&v, shard, &sharedEvent{seq: seq, clockNs: item.Entry.ClockNs, raw: e}, events, size); err != nil {
				return nil, false, err
			}
		}
	}
	return events, false, nil
}

// show moves the position past an event and appends the event if the caller selected it and may see it.
func (x *eventReader) show(v snapshots, shard int, e *sharedEvent, events []shownEvent, size int) ([]shownEvent, int, error) {
	view, err := x.query.show(v, shard, e)
	if err != nil {
		return nil, 0, err
	}
	if x.at[shard] = e.seq; view == nil {
		return events, size, nil
	}
	return append(events, shownEvent{view, e, x.at.String()}), size + len(view.event.Data), nil
}

// lateSnapshot takes a snapshot of a shard when it is first needed.
type lateSnapshot struct {
	of *cell.Cell
	v  *state.Snapshot
}

func (l *lateSnapshot) snapshot() *state.Snapshot {
	if l.v == nil {
		l.v = l.of.State().Snapshot()
	}
	return l.v
}

func (l *lateSnapshot) close() error {
	if l.v == nil {
		return nil
	}
	return l.v.Close()
}

// reset builds the event that tells the client that the stream skipped events, and why.
func (x *eventReader) reset(c *cell.Cell, shard int, why string) shownEvent {
	x.resets++
	view := &eventView{done: true, event: &api.Event{
		Seq: x.at[shard], Shard: shard, Type: api.EventReset, AtNs: c.NowNs(),
		Data: fmt.Appendf(nil, `{"next_seq":%d,"reason":%q}`, x.at[shard]+1, why),
	}}
	return shownEvent{view, nil, x.at.String()}
}
