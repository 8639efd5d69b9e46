package server

import (
	"bytes"
	"encoding/json"
	"strconv"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/rpc"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/dataplane/state/event"
)

// sharedEvent is an event of the feed. For each eventView, the first stream that shows the event composes it,
// and the first stream of each protocol encodes it. Other streams use those bytes, except RPC streams of a
// namespace with several shards.
type sharedEvent struct {
	seq     uint64
	clockNs int64
	raw     *state.Event
	ring    *eventRing // nil = not in a ring
	encoded int        // bytes counted by the ring; guarded by the ring's mu

	full, hidden eventView
}

// eventView is an event as one group of clients sees it. An event of a moved job has two forms: full for
// clients who may see the queue that the job came from, hidden for all others.
type eventView struct {
	mu      sync.Mutex
	done    bool
	event   *api.Event // nil = clients do not see it
	sse     []byte     // server-sent event without its id
	message *rpc.Encoded
}

// view returns the event for clients who may see the queue that its job came from (from is set), or for all
// other clients. The first caller composes it.
func (e *sharedEvent) view(v snapshots, shard int, from bool) (*eventView, error) {
	view, raw := &e.full, e.raw
	if raw.FromQueue != "" && !from {
		view, raw = &e.hidden, proto.Clone(raw).(*state.Event)
		raw.FromQueue = ""
	}
	view.mu.Lock()
	if view.done {
		view.mu.Unlock()
		return view, nil
	}
	snapshot := v.snapshot()
	composed, ok, err := event.Compose(snapshot, e.seq, e.clockNs, raw)
	if err == nil && ok {
		composed.Shard = shard
		view.event = &composed
	}
	view.done = err == nil
	view.mu.Unlock()
	if err == nil && ok {
		e.grew(len(composed.Data))
	}
	return view, err
}

func (e *sharedEvent) grew(bytes int) {
	if e.ring != nil {
		e.ring.grew(e, bytes)
	}
}

// snapshots provides the snapshot that events are composed from. The snapshot is taken when the first event
// needs it, because most events are already composed.
type snapshots interface{ snapshot() *state.Snapshot }

// shownEvent is an event and the position after it.
type shownEvent struct {
	*eventView
	of *sharedEvent // nil for a RESET
	id string
}

// sse encodes the event as a server-sent event without its id. Streams share the bytes, so the caller must
// not change them.
func (e *shownEvent) sse(encodes *eventCounts) ([]byte, error) {
	v := e.eventView
	v.mu.Lock()
	if v.sse != nil {
		defer v.mu.Unlock()
		return v.sse, nil
	}
	var b bytes.Buffer
	b.WriteString("event: " + v.event.Type + "\ndata: ")
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v.event) // Encode ends the line
	if err == nil {
		b.WriteByte('\n')
		v.sse = b.Bytes()
		encodes.encoded.Add(1)
	}
	text := v.sse
	v.mu.Unlock()
	if e.of != nil {
		e.of.grew(len(text))
	}
	return text, err
}

// rpc encodes the event as a message. In a namespace with one shard all streams share the message. With
// several shards each stream encodes its own, because the streams' positions differ.
func (e *shownEvent) rpc(encodes *eventCounts) any {
	v := e.eventView
	if e.id != strconv.FormatUint(v.event.Seq, 10) {
		encodes.encoded.Add(1)
		return convert.ToRPCEvent(v.event, e.id)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.message == nil {
		v.message = rpc.Encode(convert.ToRPCEvent(v.event, e.id), func(bytes int) {
			encodes.encoded.Add(1)
			if e.of != nil {
				e.of.grew(bytes)
			}
		})
	}
	return v.message
}
