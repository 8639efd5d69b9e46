package server

import (
	"context"
	"strconv"

	"connectrpc.com/connect"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/rpc"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/dataplane/server/convert"
)

// rpcSubscribe serves the Subscribe procedure, which streams the events of streamEvents as messages. A
// last_event_id of 0 counts as absent; a cursor of "0" asks for the oldest stored event.
func (s *Server) rpcSubscribe(ctx context.Context, m *connect.Request[rpc.Received[workerpb.SubscribeRequest]], to *connect.ServerStream[workerpb.SubscribeResponse]) error {
	c := rpcCallOf(ctx)
	c.r = c.r.WithContext(ctx)
	if m.Msg.Err != nil {
		return c.refuse(m.Msg.Err)
	}
	if err := s.subscribe(c, &m.Msg.Message, to); err != nil {
		return c.refuse(err)
	}
	return nil
}

func (s *Server) subscribe(c *rpcCall, m *workerpb.SubscribeRequest, to *connect.ServerStream[workerpb.SubscribeResponse]) error {
	q, err := s.beginRPC(c, m)
	if err != nil {
		return err
	}
	follower, err := s.follow(q)
	if err != nil {
		return err
	}
	defer follower.Leave()
	var f convert.Faults
	query, err := q.queryEvents(&f, filterOf(&f, "queues", m.Queues), filterOf(&f, "job_ids", m.JobIds), filterOf(&f, "types", m.Types))
	if err != nil {
		return err
	}
	from := m.Cursor
	if from == "" && m.LastEventId != 0 {
		if q.shards.Count() > 1 {
			return api.Errorf(api.ValidationError, "last_event_id is not a position in a namespace of %d shards: send the cursor of the last event", q.shards.Count())
		}
		from = strconv.FormatUint(m.LastEventId, 10)
	}
	reader, err := s.readFrom(c.r, q, query, "cursor", from)
	if err != nil {
		return err
	}
	limits := serve.DeadlinesOf(c.w)
	defer limits.End()
	limits.WriteForever()
	return s.sendEvents(c.r, reader, follower, &eventSender{server: s, to: to, out: c.out, guard: limits.Guard(s.cfg.EventWriteWait)})
}

// eventSender sends events as messages.
type eventSender struct {
	server *Server
	to     *connect.ServerStream[workerpb.SubscribeResponse]
	out    *rpcWriter
	guard  *serve.WriteGuard
	begun  bool
}

// send writes each event as a message and flushes them together. If that takes longer than EventWriteWait,
// the stream's writes fail.
func (x *eventSender) send(events []shownEvent) (bytes, writes int64, err error) {
	x.guard.Begin()
	defer x.guard.End()
	before := x.out.written
	x.out.postponed = true
	for i := range events {
		if err = x.to.Conn().Send(events[i].rpc(&x.server.eventCounts)); err != nil {
			break
		}
	}
	x.out.postponed = false
	if err == nil {
		x.out.Flush()
		err = x.out.err
	}
	return x.out.written - before, 1, err
}

// heartbeat sends the headers once. It sends no heartbeats, because HTTP/2 pings keep the connection alive.
func (x *eventSender) heartbeat(string) error {
	if x.begun {
		return nil
	}
	x.begun = true
	return x.to.Send(nil)
}
