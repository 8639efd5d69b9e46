package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
		{Name: "last_event_id", Doc: "begin behind this event, as Last-Event-ID does; 0 with the oldest there is; absent with what comes next"},
	}, eventFilter...)
	page := append([]serve.Param{
		{Name: "after_seq", Doc: "begin behind this event, or with the cursor of the page before; absent with the oldest there is"},
		{Name: "limit", Type: "integer", Doc: "how many, from 1 to 1000; default 100"},
	}, eventFilter...)
	return []serve.Route{
		{Method: "GET", Path: v1 + "/events", Permission: tenancy.JobRead, Handler: s.streamEvents, Query: stream,
			Summary: "A stream of events, as server-sent events whose data is an Event"},
		{Method: "GET", Path: v1 + "/cluster/events", Permission: tenancy.NodeRead, Handler: s.pageEvents, Query: page,
			Summary: "A page of the events", Response: api.EventPage{}},
		{Method: "GET", Path: v1 + "/jobs/{id}/events", Permission: tenancy.JobRead, Handler: s.listJobEvents, Query: read,
			Summary: "What happened to a job, oldest first", Response: api.JobEvents{}},
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
			page.Events = append(page.Events, e.Event)
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
	x := &eventReader{query: query, cells: q.shards.All()}
	if from == "" {
		return x, nil
	}
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
	if s.draining.Err() != nil {
		return again(api.Errorf(api.LeaderUnavailable, "this node is shutting down: follow another"))
	}
	place, err := s.cfg.Host.Follow(q.who.Namespace)
	if err != nil {
		return again(err)
	}
	defer place.Leave()
	reader, err := s.readEvents(r, &q, "last_event_id", lastEventID(r))
	if err != nil {
		return err
	}
	if reader.at == nil {
		reader.at = latest(reader.cells)
	}
	h := w.Header()
	h["Content-Type"] = []string{"text/event-stream"}
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // a proxy that gathers answers would keep the events
	if r.Method == http.MethodHead {
		return nil
	}
	x := eventStream{server: s, request: r, reader: reader, place: place, w: w, control: http.NewResponseController(w)}
	x.run(r.Context())
	return nil // what could be said has been said
}

// eventStream is a stream of events under way.
type eventStream struct {
	server  *Server
	request *http.Request
	reader  *eventReader
	place   *host.Following
	w       http.ResponseWriter
	control *http.ResponseController
	buffer  bytes.Buffer
}

func (x *eventStream) run(ctx context.Context) {
	idle := time.NewTicker(x.server.cfg.EventHeartbeat)
	defer idle.Stop()
	if x.comment() != nil { // it has begun
		return
	}
	// What tells of a change is asked for before it is looked for, so that none is missed.
	doubt, err := x.doubt()
	for more := false; err == nil; {
		news := x.place.News()
		if more, err = x.send(); err != nil {
			return
		}
		if more {
			news = ready
		}
		select {
		case <-news:
		case <-idle.C:
			if err = x.recheck(); err == nil { // keys run out, too
				err = x.comment()
			}
		case <-ctx.Done():
			return
		case <-x.server.draining.Done():
			return
		case <-doubt:
			doubt, err = x.doubt()
		}
		// Of several that are true at once a select takes any: a key that was revoked
		// must not have to wait for its turn.
		select {
		case <-doubt:
			doubt, err = x.doubt()
		default:
		}
	}
}

// ready is news that has come.
var ready = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

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
	who, err := x.server.authenticate(x.request)
	if err != nil {
		return err
	}
	query := x.reader.query
	if who.Namespace != query.who.Namespace {
		return errors.New("the key opens another namespace")
	}
	where := tenancy.Where{Namespace: who.Namespace}
	for _, where.Queue = range append([]string{""}, query.queues...) {
		if err := tenancy.Allow(who, tenancy.JobRead, where); err != nil {
			return err
		}
	}
	query.who = who
	return nil
}

// send writes the next events there are, and says whether there may be more.
func (x *eventStream) send() (more bool, err error) {
	events, more, err := x.reader.read(eventBatch)
	if err != nil {
		x.server.cfg.Logger.Error("a stream of events has ended", "error", err)
		return false, err
	}
	for i := range events {
		if err := x.write(&events[i]); err != nil {
			return false, err
		}
	}
	if len(events) == 0 {
		return more, nil
	}
	return more, x.control.Flush()
}

// write sends one event, in one piece.
func (x *eventStream) write(e *toldEvent) error {
	x.buffer.Reset()
	x.buffer.WriteString("id: " + e.id + "\nevent: " + e.Type + "\ndata: ")
	encoder := json.NewEncoder(&x.buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(&e.Event); err != nil { // it ends the line
		return err
	}
	x.buffer.WriteByte('\n')
	return x.out()
}

// comment sends what is no event. Who may see all is told with it how far the feed is,
// so that it need not read again what it did not ask for; others would learn from that
// how much there is.
func (x *eventStream) comment() error {
	x.buffer.Reset()
	x.buffer.WriteString(":\n")
	if at := x.reader.at.String(); at != "0" && x.reader.query.all() {
		x.buffer.WriteString("id: " + at + "\n")
	}
	x.buffer.WriteByte('\n')
	if err := x.out(); err != nil {
		return err
	}
	return x.control.Flush()
}

// out writes the buffer, within the time a client has. Between writes there is no
// limit, nor the server's.
func (x *eventStream) out() error {
	_ = x.control.SetWriteDeadline(time.Now().Add(x.server.cfg.EventWriteWait)) // writers of tests have none
	_, err := x.w.Write(x.buffer.Bytes())
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
