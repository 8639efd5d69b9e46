package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/state"
)

// A batch of events is as much as is read of a shard at once: no snapshot is held, and
// no answer grows, for longer than that.
const (
	eventBatch      = 256       // events that are shown
	eventBatchSeen  = 4096      // events that are looked at
	eventBatchBytes = 256 << 10 // of data
)

// eventReader reads the feeds of a namespace's shards on from a place. The sequence of
// an event is the same on every replica, so a place is good on any node.
type eventReader struct {
	query *eventQuery
	cells []*cell.Cell
	at    seqs

	oldest bool // it begins with the oldest events there are, which are not missed ones
}

// toldEvent is an event, and the place behind it.
type toldEvent struct {
	api.Event
	id string
}

// settle makes sure of a place that lies beyond what this node has: it may lag, and then
// it waits; or the place is of another history, and then it is none.
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

// read is the next events that are shown, up to most, and whether there may be more. The
// reader is behind them then. No shard keeps the others waiting.
func (x *eventReader) read(most int) (events []toldEvent, more bool, err error) {
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

func (x *eventReader) readShard(shard, most int) (events []toldEvent, more bool, err error) {
	c := x.cells[shard]
	v := c.State().Snapshot()
	defer func() { err = errors.Join(err, v.Close()) }()
	head := v.Head()
	if next := x.at[shard] + 1; next < head.FeedFirstSeq || next > head.FeedNextSeq {
		begins := x.oldest && x.at[shard] == 0
		x.at[shard] = head.FeedFirstSeq - 1
		if !begins {
			events = append(events, x.reset(c, shard))
		}
	}
	seen, size := 0, 0
	for item, err := range v.Feed(x.at[shard] + 1) {
		if err != nil {
			return nil, false, fmt.Errorf("feed of shard %d: %w", shard, err)
		}
		for n, e := range item.Entry.Events {
			seq := item.FirstSeq + uint64(n)
			if seq <= x.at[shard] {
				continue
			}
			if len(events) >= most || seen >= eventBatchSeen || size >= eventBatchBytes {
				return events, true, nil
			}
			told, err := x.tell(v, shard, seq, item.Entry.ClockNs, e)
			if err != nil {
				return nil, false, err
			}
			seen++
			if x.at[shard] = seq; told != nil {
				size += len(told.Data)
				events = append(events, toldEvent{*told, x.at.String()})
			}
		}
	}
	return events, false, nil
}

func (x *eventReader) tell(v *state.Snapshot, shard int, seq uint64, clockNs int64, e *state.Event) (*api.Event, error) {
	told, err := x.query.compose(v, seq, clockNs, e)
	if told != nil {
		told.Shard = shard
	}
	return told, err
}

// reset is the event that says that the feed was not there from where it was to go on.
func (x *eventReader) reset(c *cell.Cell, shard int) toldEvent {
	return toldEvent{api.Event{
		Seq: x.at[shard], Shard: shard, Type: api.EventReset, AtNs: c.NowNs(),
		Data: fmt.Appendf(nil, `{"next_seq":%d}`, x.at[shard]+1),
	}, x.at.String()}
}
