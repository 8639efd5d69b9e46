package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/tenancy"
)

// enqueuesAtOnce enqueues jobs in one commit.
func (n *node) enqueuesAtOnce(queue string, count int) {
	n.t.Helper()
	jobs := strings.Repeat(fmt.Sprintf(`{"queue":%q},`, queue), count)
	n.ok(nil, "POST", "/enqueue/batch", `{"jobs":[`+strings.TrimSuffix(jobs, ",")+`]}`)
}

// eventMemory returns the events in the node's memory and their bytes.
func (n *node) eventMemory() (events, bytes int) {
	events, bytes, _ = n.server.EventMemory(tenancy.Default)
	return events, bytes
}

// subscribe follows the events by the RPC; the stream has begun.
func (n *node) subscribe(options ...connect.ClientOption) *connect.ServerStreamForClient[workerpb.SubscribeResponse] {
	n.t.Helper()
	s, err := rpcClient(n.t, h2c(n.t), n.rpcFront(), n.admin, options...).Subscribe(n.t.Context(), rpcOf(&workerpb.SubscribeRequest{Types: []string{"enqueued"}}))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { s.Close() })
	return s
}

// An event is encoded once for all streams of a protocol.
func TestEventsAreEncodedOnce(t *testing.T) {
	t.Parallel()
	const streams, jobs = 20, 50
	n := startNode(t, func(c *server.Config) { c.EventHeartbeat = time.Hour }) // the ring is not freed
	var all []*follower
	for range streams {
		all = append(all, n.follow(n.admin, "?types=enqueued").begun())
	}
	var calls []*connect.ServerStreamForClient[workerpb.SubscribeResponse]
	for i := range streams {
		calls = append(calls, n.subscribe([][]connect.ClientOption{{connect.WithGRPC()}, {connect.WithProtoJSON()}}[i%2]...))
	}
	eventually(t, "all have begun", func() bool { return n.figures()["corvo_event_streams"] == 2*streams })
	n.enqueuesAtOnce("mail", jobs)
	for _, f := range all {
		for range jobs {
			f.wants("enqueued mail {}")
		}
	}
	for _, s := range calls {
		for i := range jobs {
			if !s.Receive() {
				t.Fatalf("event %d: %v", i, s.Err())
			}
			m := s.Msg()
			equal(t, "type", m.Type, "enqueued")
			equal(t, "queue", m.Queue, "mail")
			equal(t, "cursor", m.Cursor, fmt.Sprint(m.Seq))
			equal(t, "data_json", m.DataJson, "{}")
		}
	}
	// Server-sent events, binary messages and JSON messages.
	eventually(t, "what was sent is counted", func() bool { return n.figures()["corvo_events_sent_total"] == 2*streams*jobs })
	got := n.figures()
	if encoded := got["corvo_events_encoded_total"]; encoded != 3*jobs {
		t.Errorf("%v events were encoded for %d streams, want %d", encoded, 2*streams, 3*jobs)
	}
	if got["corvo_events_sent_bytes_total"] < 2*streams*jobs*50 || got["corvo_event_stream_resets_total"] != 0 {
		t.Errorf("%v bytes, %v resets", got["corvo_events_sent_bytes_total"], got["corvo_event_stream_resets_total"])
	}
}

// The memory of a namespace's streams is bounded, whether clients read or not. It is freed when no events
// come and when the streams end.
func TestEventMemoryIsBounded(t *testing.T) {
	t.Parallel()
	const batches, jobs = 12, 1000
	n := startNode(t, func(c *server.Config) { c.EventHeartbeat = time.Hour })
	for range 20 {
		n.follow(n.admin, "") // this client never reads
	}
	reads := n.follow(n.admin, "").begun()
	for i := range batches {
		n.enqueuesAtOnce(fmt.Sprint("q", i), jobs)
		for range jobs {
			reads.wants(fmt.Sprintf("enqueued q%d {}", i))
		}
		events, bytes := n.eventMemory()
		if bytes > server.EventRingBytes || events*server.SharedEventBytes > bytes {
			t.Fatalf("%d events of %d bytes, the most is %d", events, bytes, server.EventRingBytes)
		}
	}
	if events, _ := n.eventMemory(); events == 0 || events >= batches*jobs {
		t.Errorf("%d of %d events are in memory", events, batches*jobs)
	}
	n.server.RestEvents(tenancy.Default, time.Hour)
	if events, _ := n.eventMemory(); events == 0 {
		t.Error("events are dropped at once")
	}
	n.server.RestEvents(tenancy.Default, 0)
	if events, bytes := n.eventMemory(); events != 0 || bytes != 0 {
		t.Errorf("%d events of %d bytes where nothing happens", events, bytes)
	}
	n.enqueue("after")
	reads.wants("enqueued after")
	n.server.Drain()
	eventually(t, "the memory of the streams is freed", func() bool { _, _, open := n.server.EventMemory(tenancy.Default); return !open })
}

// A stream that was up to date and falls too far behind gets a RESET and continues with the next event. The
// client can read the missed events page by page.
func TestStreamsThatLagAreReset(t *testing.T) {
	t.Parallel()
	const lag = 20
	n := startNode(t, func(c *server.Config) { c.EventLag = lag })
	live := n.follow(n.admin, "").begun()
	n.enqueue("first")
	at := live.wants("enqueued first")[0].Seq
	eventually(t, "the stream has looked again", func() bool { return n.figures()["corvo_events_sent_total"] == 1 })
	n.enqueuesAtOnce("bound", lag)
	for range lag {
		live.wants("enqueued bound")
	}
	last := at + lag
	n.enqueuesAtOnce("beyond", lag+1)
	next := last + lag + 2
	reset := live.wants(fmt.Sprintf(`RESET  {"next_seq":%d,"reason":"lag"}`, next))[0]
	if reset.Seq != next-1 || live.lastID != fmt.Sprint(next-1) {
		t.Errorf("%+v, id %s", reset, live.lastID)
	}
	n.enqueue("after")
	live.wants("enqueued after")
	if got := n.figures()["corvo_event_stream_resets_total"]; got != 1 {
		t.Errorf("%v resets", got)
	}
	var missed api.EventPage
	n.ok(&missed, "GET", fmt.Sprintf("/cluster/events?after_seq=%d&queues=beyond", last), "")
	if len(missed.Events) != lag+1 || missed.Events[0].Seq != last+1 {
		t.Errorf("%d missed events", len(missed.Events))
	}
	// A client that asks for old events may be as far behind as it likes.
	old := n.follow(n.admin, "?last_event_id=0").begun()
	old.wants("enqueued first", "enqueued bound")
}

// Streams that are behind the ring read the store until they reach it, and miss nothing.
func TestStreamsCatchUpWithTheRing(t *testing.T) {
	t.Parallel()
	const jobs = 1000
	n := startNode(t, func(c *server.Config) { c.EventHeartbeat = time.Hour }) // the ring is not freed
	for i := range 10 {
		n.enqueuesAtOnce(fmt.Sprint("q", i), jobs)
	}
	live := n.follow(n.admin, "").begun()
	n.enqueue("mark")
	live.wants("enqueued mark")
	late := n.follow(n.admin, "?last_event_id=0").begun()
	var last uint64
	for i := range 10 {
		for range jobs {
			e := late.wants(fmt.Sprintf("enqueued q%d ", i))[0]
			if e.Seq != last+1 {
				t.Fatalf("event %d behind %d", e.Seq, last)
			}
			last = e.Seq
		}
	}
	late.wants("enqueued mark")
	encoded := n.figures()["corvo_events_encoded_total"]
	n.enqueue("both")
	live.wants("enqueued both")
	late.wants("enqueued both")
	if now := n.figures()["corvo_events_encoded_total"]; now != encoded+1 {
		t.Errorf("%v encodings of one event for two streams", now-encoded)
	}
}

// Streams share events, but each key sees only what it may see.
func TestSharedEventsKeepTheirScopes(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	mine := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.ReadOnly}, QueueScope: []tenancy.Glob{"mine.*"}})
	all, scoped := n.follow(n.admin, "?types=moved").begun(), n.follow(mine, "?types=moved").begun()
	for i := range 4 {
		id := n.enqueue("theirs")
		if err := n.client(n.admin).Move(t.Context(), id, fmt.Sprintf("mine.%d", i)); err != nil {
			t.Fatal(err)
		}
		wants := [2]string{fmt.Sprintf(`moved mine.%d {"from_queue":"theirs"}`, i), fmt.Sprintf(`moved mine.%d {}`, i)}
		if i%2 == 0 { // in both orders
			all.wants(wants[0])
			scoped.wants(wants[1])
		} else {
			scoped.wants(wants[1])
			all.wants(wants[0])
		}
	}
}
