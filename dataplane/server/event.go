package server

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/dataplane/state/event"
	"github.com/corvo/corvo/tenancy"
)

// Bounds of event streams and pages.
const (
	// DefaultEventHeartbeat is the interval of heartbeats, which show proxies that a stream is alive.
	DefaultEventHeartbeat = 15 * time.Second
	// DefaultEventWriteWait is the time that a client has to read one batch or heartbeat, or one answer on a
	// worker stream. A slower client is disconnected. A client of events can reconnect with the id of its
	// last event.
	DefaultEventWriteWait = 10 * time.Second
	// pageBatches bounds the batches that one page reads. A page whose filter or scope skips most events may
	// therefore end before its limit; the next page continues at its cursor.
	pageBatches = 16
)

func (s *Server) eventRoutes() []serve.Route {
	const v1 = "/api/v1"
	stream := append([]serve.Param{
		{Name: "last_event_id", Doc: "id of the event to start after; 0 for the oldest stored event; default: new events. The header Last-Event-ID overrides it"},
	}, eventFilter...)
	page := append([]serve.Param{
		{Name: "after_seq", Doc: "id of the event to start after, or the cursor of the page before; default: the oldest stored event"},
		{Name: "limit", Type: "integer", Doc: "events on a page, from 1 to 1000; default 100"},
	}, eventFilter...)
	return []serve.Route{
		{Method: "GET", Path: v1 + "/events", Permission: tenancy.JobRead, Handler: s.streamEvents, Query: stream,
			Summary: "Stream events as server-sent events", Description: "The data of each server-sent event is an Event."},
		{Method: "GET", Path: v1 + "/cluster/events", Permission: tenancy.NodeRead, Handler: s.pageEvents, Query: page,
			Summary: "List events, one page at a time", Response: api.EventPage{}},
		{Method: "GET", Path: v1 + "/jobs/{id}/events", Permission: tenancy.JobRead, Handler: s.listJobEvents, Query: read,
			Summary: "List the events of a job, oldest first", Response: api.JobEvents{}},
	}
}

func (s *Server) pageEvents(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	query := r.URL.Query()
	limit, err := number(query, "limit", 100, 1, job.MaxEventPage)
	if err != nil {
		return err
	}
	reader, err := s.readEvents(r, &q, "after_seq", query.Get("after_seq"))
	if err != nil {
		return err
	}
	if reader.at == nil {
		reader.at, reader.oldest = make(seqs, len(reader.cells)), true
	}
	page := api.EventPage{Events: []api.Event{}}
	for range pageBatches {
		events, more, err := reader.read(limit - len(page.Events))
		if err != nil {
			return err
		}
		for _, e := range events {
			page.Events = append(page.Events, *e.event)
		}
		if page.HasMore = more; !more || len(page.Events) == limit {
			break
		}
	}
	page.Cursor = reader.at.String()
	return serve.WriteJSON(w, http.StatusOK, page)
}

// readEvents returns a reader for the filter of a request. The reader's position is nil if from is "".
func (s *Server) readEvents(r *http.Request, q *request, name, from string) (*eventReader, error) {
	query, err := q.parseEvents(r.URL.Query())
	if err != nil {
		return nil, err
	}
	return s.readFrom(r, q, query, name, from)
}

// readFrom returns a reader that starts after the position in from; "" means no position. An error calls the
// position by name. If this node lacks the position, readFrom waits for the leader's state, at most
// Config.ReadWait.
func (s *Server) readFrom(r *http.Request, q *request, query *eventQuery, name, from string) (*eventReader, error) {
	x := &eventReader{query: query, cells: q.shards.All()}
	if from == "" {
		return x, nil
	}
	var err error
	if x.at, err = parseSeqs(name, from, x.cells); err != nil {
		return nil, err
	}
	x.oldest = from == "0"
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.ReadWait)
	defer cancel()
	return x, x.settle(ctx)
}

// streamEvents sends events as they come, until the client leaves or run ends the stream for another reason.
func (s *Server) streamEvents(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	follower, err := s.follow(&q)
	if err != nil {
		return err
	}
	defer follower.Leave()
	reader, err := s.readEvents(r, &q, "last_event_id", lastEventID(r))
	if err != nil {
		return err
	}
	streamHeader(w)
	if r.Method == http.MethodHead {
		return nil
	}
	// The answer has begun, so the client can no longer receive the reason for its end.
	_ = s.sendEvents(r, reader, follower, &eventWriter{server: s, w: w, control: http.NewResponseController(w)})
	return nil
}

// sendEvents sends events to a listener until the client leaves or the stream must end. It returns the
// reason, or nil if the client left.
func (s *Server) sendEvents(r *http.Request, reader *eventReader, follower *host.Follower, to listener) error {
	if reader.at == nil {
		reader.at = latest(reader.cells)
	}
	ns := reader.query.who.Namespace
	hub := s.events.enter(ns, reader.cells, s.cfg.EventRate)
	defer s.events.leave(ns, hub)
	reader.hub, reader.lag, reader.upTo = hub, uint64(s.cfg.EventLag), make([]bool, len(reader.cells))
	x := eventStream{server: s, request: r, reader: reader, follower: follower, to: to, pace: newEventPace(&hub.rate)}
	defer x.pace.end()
	return x.run(r.Context())
}

// follow registers a follower of events. The caller must call Leave on it.
func (s *Server) follow(q *request) (*host.Follower, error) {
	if s.draining.Err() != nil {
		return nil, shuttingDown()
	}
	follower, err := s.cfg.Host.Follow(q.who.Namespace)
	return follower, again(err)
}

// shuttingDown tells the client to open its stream at another node.
func shuttingDown() error {
	return again(api.Errorf(api.LeaderUnavailable, "this node is shutting down: open a stream at another"))
}

// streamHeader sets the headers of a server-sent event stream.
func streamHeader(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy that buffers answers would delay the events
}

// eventStream is a running stream of events.
type eventStream struct {
	server   *Server
	request  *http.Request
	reader   *eventReader
	follower *host.Follower
	to       listener
	pace     *eventPace
}

// listener sends events to a client.
type listener interface {
	// send writes events and returns the number of bytes and of writes.
	send(events []shownEvent) (bytes, writes int64, err error)
	// heartbeat sends a heartbeat. at is the position in the feed, or "" for a client with a scope, because the
	// position would show how many events other queues have.
	heartbeat(at string) error
}

// run sends events until the request's context ends, and then returns nil. If the stream must end before, run
// returns the reason: the client's key loses the right, the node drains, the namespace closes, or a read or
// write fails. A stream that is notified of new events waits for its turn in the namespace's rate before it
// reads them, so that many streams do not all read and write at each commit.
func (x *eventStream) run(ctx context.Context) error {
	idle := time.NewTicker(x.server.cfg.EventHeartbeat)
	defer idle.Stop()
	if err := x.heartbeat(); err != nil { // tells the client that the stream has begun
		return err
	}
	recheck, err := x.mayContinue()
	due := x.pace.take()
	var news <-chan struct{}
	for err == nil {
		select {
		case <-news:
			news, due = nil, x.pace.take()
		case <-due:
			// Ask for news before reading, so that no event is missed.
			due, news = nil, x.follower.News()
			var more bool
			if more, err = x.send(); more {
				news, due = nil, x.pace.take()
			}
		case <-idle.C:
			if err = x.recheck(); err == nil { // because a key may expire
				err = x.heartbeat()
			}
			x.reader.hub.rest(x.server.cfg.EventHeartbeat)
		case <-ctx.Done():
			return nil
		case <-x.server.draining.Done():
			return shuttingDown()
		case <-recheck:
			recheck, err = x.mayContinue()
		}
		if err != nil {
			return err
		}
		// Check again: select chooses any ready case, and a revoked key must not stay in use until select
		// happens to choose the case above.
		select {
		case <-recheck:
			recheck, err = x.mayContinue()
		default:
		}
	}
	return err
}

// mayContinue checks whether the stream may continue and returns a channel that closes when that must be
// checked again.
func (x *eventStream) mayContinue() (<-chan struct{}, error) {
	recheck, err := x.follower.Rechecks()
	if err == nil {
		err = x.recheck()
	}
	return recheck, err
}

// recheck checks that the client may still see the selected events and updates the client's scope, because a
// key may be revoked, expire or get another scope.
func (x *eventStream) recheck() error {
	query := x.reader.query
	who, err := x.server.stays(x.request, query.who, tenancy.JobRead)
	if err != nil {
		return err
	}
	where := tenancy.Where{Namespace: who.Namespace}
	for _, where.Queue = range query.queues {
		if err := tenancy.Allow(who, tenancy.JobRead, where); err != nil {
			return err
		}
	}
	query.who = who
	return nil
}

// send writes the next events and reports whether there may be more.
func (x *eventStream) send() (more bool, err error) {
	x.reader.cost, x.reader.resets = 0, 0
	events, more, err := x.reader.read(eventBatch)
	if err != nil {
		x.server.cfg.Logger.Error("a stream of events ended with an error", "error", err)
		return false, err
	}
	var bytes, writes int64
	if len(events) > 0 {
		bytes, writes, err = x.to.send(events)
	}
	counts := &x.server.eventCounts
	counts.sent.Add(uint64(len(events)))
	counts.bytes.Add(uint64(bytes))
	counts.resets.Add(x.reader.resets)
	x.pace.took(x.reader.cost + max(bytes, writes*eventWriteCost))
	return more, err
}

// heartbeat sends a heartbeat to the listener.
func (x *eventStream) heartbeat() error {
	at := x.reader.at.String()
	if !x.reader.query.all() {
		at = ""
	}
	return x.to.heartbeat(at)
}

// eventWriter writes events as server-sent events.
type eventWriter struct {
	server  *Server
	w       http.ResponseWriter
	control *http.ResponseController
	buffer  bytes.Buffer
}

// send writes the events one by one and flushes them together, within EventWriteWait. After a flush there
// is no deadline, not even the HTTP server's.
func (x *eventWriter) send(events []shownEvent) (bytes, writes int64, err error) {
	_ = x.control.SetWriteDeadline(time.Now().Add(x.server.cfg.EventWriteWait)) // writers of tests have no deadline
	for i := range events {
		text, err := events[i].sse(&x.server.eventCounts)
		if err != nil {
			return bytes, 1, err
		}
		x.buffer.Reset()
		x.buffer.WriteString("id: " + events[i].id + "\n")
		x.buffer.Write(text)
		bytes += int64(x.buffer.Len())
		if _, err := x.w.Write(x.buffer.Bytes()); err != nil {
			return bytes, 1, err
		}
	}
	return bytes, 1, x.flush()
}

// heartbeat sends a comment and, for a client without a scope, the position in the feed, so that a client that
// reconnects does not read events again that its filter skipped.
func (x *eventWriter) heartbeat(at string) error {
	x.buffer.Reset()
	x.buffer.WriteString(":\n")
	if at != "" && at != "0" {
		x.buffer.WriteString("id: " + at + "\n")
	}
	x.buffer.WriteByte('\n')
	_ = x.control.SetWriteDeadline(time.Now().Add(x.server.cfg.EventWriteWait))
	if _, err := x.w.Write(x.buffer.Bytes()); err != nil {
		return err
	}
	return x.flush()
}

// flush sends the written bytes and removes the deadline.
func (x *eventWriter) flush() error {
	err := x.control.Flush()
	if err == nil {
		_ = x.control.SetWriteDeadline(time.Time{})
	}
	return err
}

// listJobEvents answers with the stored history of a job, which exists until the job is purged, and the
// details that the job's records still contain. Dropped is the number of events that the job no longer
// stores.
func (s *Server) listJobEvents(w http.ResponseWriter, r *http.Request) error {
	return s.readOfJob(w, r, func(v *state.Snapshot, id job.ID) (any, error) {
		j, err := v.Job(id)
		if err != nil {
			return nil, err
		}
		past, dropped, err := j.PastEvents()
		if err != nil {
			return nil, err
		}
		out := api.JobEvents{Events: make([]api.JobEvent, 0, len(past)), Dropped: int64(dropped)}
		for _, p := range past {
			e := &state.Event{Type: state.EventType(p.Type), JobId: j.Id, Queue: j.Queue, Attempt: p.Attempt}
			composed, ok, err := event.Compose(v, 0, p.AtNs, e)
			if err != nil {
				return nil, err
			}
			if ok {
				out.Events = append(out.Events, api.JobEvent{Type: composed.Type, At: api.TimeOf(time.Unix(0, p.AtNs)), Attempt: int(p.Attempt), Data: composed.Data})
			}
		}
		return out, nil
	})
}
