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

// sharedEvent is an event of the feed. It is composed and encoded when the first stream
// shows it; the others use the same bytes.
type sharedEvent struct {
	seq     uint64
	clockNs int64
	raw     *state.Event
	ring    *eventRing // nil = it is in none
	encoded int        // bytes that the ring counted; guarded by its mu

	full, hidden eventView
}

// eventView is an event as some clients are shown it.
type eventView struct {
	mu      sync.Mutex
	done    bool
	told    *api.Event // nil = clients are not told of it
	frame   []byte     // of server-sent events, without the id
	message *rpc.Encoded
}

// view composes the event for clients that may know from which queue its job came, or for
// those that may not.
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
	told, ok, err := event.Compose(snapshot, e.seq, e.clockNs, raw)
	if err == nil && ok {
		told.Shard = shard
		view.told = &told
	}
	view.done = err == nil
	view.mu.Unlock()
	if err == nil && ok {
		e.grew(len(told.Data))
	}
	return view, err
}

func (e *sharedEvent) grew(bytes int) {
	if e.ring != nil {
		e.ring.grew(e, bytes)
	}
}

// snapshots gives the snapshot that events are composed from. It is taken when the first
// event needs one: most are composed already.
type snapshots interface{ snapshot() *state.Snapshot }

// toldEvent is an event, and the place behind it.
type toldEvent struct {
	*eventView
	of *sharedEvent // nil: RESET
	id string
}

// sse is the event as server-sent events, all but its id.
func (e *toldEvent) sse(encodes *eventCounts) ([]byte, error) {
	v := e.eventView
	v.mu.Lock()
	if v.frame != nil {
		defer v.mu.Unlock()
		return v.frame, nil
	}
	var b bytes.Buffer
	b.WriteString("event: " + v.told.Type + "\ndata: ")
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v.told) // it ends the line
	if err == nil {
		b.WriteByte('\n')
		v.frame = b.Bytes()
		encodes.encoded.Add(1)
	}
	frame := v.frame
	v.mu.Unlock()
	if e.of != nil {
		e.of.grew(len(frame))
	}
	return frame, err
}

// rpc is the event as a message. All streams of a namespace with one shard share its
// bytes; the place in several shards is another for each stream.
func (e *toldEvent) rpc(encodes *eventCounts) any {
	v := e.eventView
	if e.id != strconv.FormatUint(v.told.Seq, 10) {
		encodes.encoded.Add(1)
		return convert.ToRPCEvent(v.told, e.id)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.message == nil {
		v.message = rpc.Encode(convert.ToRPCEvent(v.told, e.id), func(bytes int) {
			encodes.encoded.Add(1)
			if e.of != nil {
				e.of.grew(bytes)
			}
		})
	}
	return v.message
}
