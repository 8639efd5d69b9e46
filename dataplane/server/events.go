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

// How a stream of events goes.
const (
	// DefaultEventHeartbeat is how often a stream says something that has nothing to
	// say, so that what lies in between knows that it is alive.
	DefaultEventHeartbeat = 15 * time.Second
	// DefaultEventWriteWait is how long a client may take to read what it is sent. Who
	// takes longer is cut off, and comes back with the id of the last event it has.
	DefaultEventWriteWait = 10 * time.Second
	// pageBatches is how many batches a page is looked for in: one of a filter that
	// little passes ends then, and the next goes on.
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
			page.Events = append(page.Events, *e.told)
		}
		if page.HasMore = more; !more || len(page.Events) == limit {
			break
		}
	}
	page.Cursor = reader.at.String()
	return serve.WriteJSON(w, http.StatusOK, page)
}

// readEvents is a reader of what a request asks for; its place is nil where the request
// names none.
func (s *Server) readEvents(r *http.Request, q *request, name, from string) (*eventReader, error) {
	query, err := q.parseEvents(r.URL.Query())
	if err != nil {
		return nil, err
	}
	return s.readFrom(r, q, query, name, from)
}

// readFrom is a reader behind a place; "" names none.
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

// streamEvents sends events as they come, until the client leaves, its key does, or the
// node.
func (s *Server) streamEvents(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	place, err := s.follow(&q)
	if err != nil {
		return err
	}
	defer place.Leave()
	reader, err := s.readEvents(r, &q, "last_event_id", lastEventID(r))
	if err != nil {
		return err
	}
	streamHeader(w)
	if r.Method == http.MethodHead {
		return nil
	}
	// What could be said to the client has been said when the stream ends.
	_ = s.tellEvents(r, reader, place, &eventWriter{server: s, w: w, control: http.NewResponseController(w)})
	return nil
}

// tellEvents sends events to a client until it leaves or may not go on; the error says
// why.
func (s *Server) tellEvents(r *http.Request, reader *eventReader, place *host.Following, to listener) error {
	if reader.at == nil {
		reader.at = latest(reader.cells)
	}
	ns := reader.query.who.Namespace
	hub := s.events.enter(ns, reader.cells, s.cfg.EventRate)
	defer s.events.leave(ns, hub)
	reader.hub, reader.lag, reader.upTo = hub, uint64(s.cfg.EventLag), make([]bool, len(reader.cells))
	x := eventStream{server: s, request: r, reader: reader, place: place, to: to, turn: newEventTurn(&hub.rate)}
	defer x.turn.end()
	return x.run(r.Context())
}

// follow takes a place among those who follow events, which must be left.
func (s *Server) follow(q *request) (*host.Following, error) {
	if s.draining.Err() != nil {
		return nil, shuttingDown()
	}
	place, err := s.cfg.Host.Follow(q.who.Namespace)
	return place, again(err)
}

// shuttingDown sends a stream elsewhere.
func shuttingDown() error {
	return again(api.Errorf(api.LeaderUnavailable, "this node is shutting down: open a stream at another"))
}

// streamHeader announces events.
func streamHeader(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy that gathers answers would keep the events
}

// eventStream is a stream of events under way.
type eventStream struct {
	server  *Server
	request *http.Request
	reader  *eventReader
	place   *host.Following
	to      listener
	turn    *eventTurn
}

// listener is a client that is told events.
type listener interface {
	// tell sends events, and says how many bytes those took and in how many writes.
	tell(events []toldEvent) (bytes, writes int64, err error)
	// alive says something where there is nothing to say; at is how far the feed was
	// read, for who may see all of it: others would learn from that how much there is.
	alive(at string) error
}

// run tells events until the client leaves or may not go on: the error says why, nil is
// the client. A stream with news takes its turn among those of its namespace before it
// looks for them, so that many streams do not all wake and write at each commit.
func (x *eventStream) run(ctx context.Context) error {
	idle := time.NewTicker(x.server.cfg.EventHeartbeat)
	defer idle.Stop()
	if err := x.alive(); err != nil { // it has begun
		return err
	}
	doubt, err := x.doubt()
	turn := x.turn.take()
	var news <-chan struct{}
	for err == nil {
		select {
		case <-news:
			news, turn = nil, x.turn.take()
		case <-turn:
			// News are asked for before they are looked for, so that none is missed.
			turn, news = nil, x.place.News()
			var more bool
			if more, err = x.send(); more {
				news, turn = nil, x.turn.take()
			}
		case <-idle.C:
			if err = x.recheck(); err == nil { // keys run out, too
				err = x.alive()
			}
			x.reader.hub.rest(x.server.cfg.EventHeartbeat)
		case <-ctx.Done():
			return nil
		case <-x.server.draining.Done():
			return shuttingDown()
		case <-doubt:
			doubt, err = x.doubt()
		}
		if err != nil {
			return err
		}
		// Of several that are true at once a select takes any: a key that was revoked
		// must not have to wait for its turn.
		select {
		case <-doubt:
			doubt, err = x.doubt()
		default:
		}
	}
	return err
}

// doubt asks whether the stream may go on, and when to ask again.
func (x *eventStream) doubt() (<-chan struct{}, error) {
	doubt, err := x.place.Doubt()
	if err == nil {
		err = x.recheck()
	}
	return doubt, err
}

// recheck asks whether the client may still see what it asked for, and what that is: a
// key may be revoked, run out, and have another scope.
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

// send writes the next events there are, and says whether there may be more.
func (x *eventStream) send() (more bool, err error) {
	x.reader.cost, x.reader.resets = 0, 0
	events, more, err := x.reader.read(eventBatch)
	if err != nil {
		x.server.cfg.Logger.Error("a stream of events has ended", "error", err)
		return false, err
	}
	var bytes, writes int64
	if len(events) > 0 {
		bytes, writes, err = x.to.tell(events)
	}
	counts := &x.server.eventCounts
	counts.sent.Add(uint64(len(events)))
	counts.bytes.Add(uint64(bytes))
	counts.resets.Add(x.reader.resets)
	x.turn.took(x.reader.cost + max(bytes, writes*eventWriteCost))
	return more, err
}

// alive has the listener hear that the stream is.
func (x *eventStream) alive() error {
	at := x.reader.at.String()
	if !x.reader.query.all() {
		at = ""
	}
	return x.to.alive(at)
}

// eventWriter tells events as server-sent events.
type eventWriter struct {
	server  *Server
	w       http.ResponseWriter
	control *http.ResponseController
	buffer  bytes.Buffer
}

// tell writes each event in one piece, and has all of them sent within the time that a
// client has to read. Between batches there is no limit, nor the server's.
func (x *eventWriter) tell(events []toldEvent) (bytes, writes int64, err error) {
	_ = x.control.SetWriteDeadline(time.Now().Add(x.server.cfg.EventWriteWait)) // writers of tests have none
	for i := range events {
		frame, err := events[i].sse(&x.server.eventCounts)
		if err != nil {
			return bytes, 1, err
		}
		x.buffer.Reset()
		x.buffer.WriteString("id: " + events[i].id + "\n")
		x.buffer.Write(frame)
		bytes += int64(x.buffer.Len())
		if _, err := x.w.Write(x.buffer.Bytes()); err != nil {
			return bytes, 1, err
		}
	}
	return bytes, 1, x.sent()
}

// alive sends what is no event, with how far the feed is: who comes back need not read
// again what it did not ask for.
func (x *eventWriter) alive(at string) error {
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
	return x.sent()
}

// sent flushes what was written and lifts the limit.
func (x *eventWriter) sent() error {
	err := x.control.Flush()
	if err == nil {
		_ = x.control.SetWriteDeadline(time.Time{})
	}
	return err
}

// listJobEvents answers a job's history, which is kept until the job is purged, with
// what its records still say of it.
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
			told, ok, err := event.Compose(v, 0, p.AtNs, e)
			if err != nil {
				return nil, err
			}
			if ok {
				out.Events = append(out.Events, api.JobEvent{Type: told.Type, At: api.TimeOf(time.Unix(0, p.AtNs)), Attempt: int(p.Attempt), Data: told.Data})
			}
		}
		return out, nil
	})
}
