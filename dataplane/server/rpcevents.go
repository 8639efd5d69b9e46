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

// rpcSubscribe is streamEvents as a procedure.
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
	place, err := s.follow(q)
	if err != nil {
		return err
	}
	defer place.Leave()
	var f convert.Faults
	query, err := q.queryEvents(&f, filterOf(&f, "queues", m.Queues), filterOf(&f, "job_ids", m.JobIds), filterOf(&f, "types", m.Types))
	if err != nil {
		return err
	}
	from := m.Cursor
	if from == "" && m.LastEventId != 0 {
		if q.shards.Count() > 1 {
			return api.Errorf(api.ValidationError, "last_event_id is no place in a namespace of %d shards: pass on the cursor of the last event", q.shards.Count())
		}
		from = strconv.FormatUint(m.LastEventId, 10)
	}
	reader, err := s.readFrom(c.r, q, query, "cursor", from)
	if err != nil {
		return err
	}
	if reader.at == nil {
		reader.at = latest(reader.cells)
	}
	limits := serve.DeadlinesOf(c.w)
	defer limits.End()
	limits.WriteForever()
	x := eventStream{server: s, request: c.r, reader: reader, place: place, to: &eventSender{to: to, guard: limits.Guard(s.cfg.EventWriteWait)}}
	return x.run(c.r.Context())
}

// eventSender tells events as messages.
type eventSender struct {
	to    *connect.ServerStream[workerpb.SubscribeResponse]
	guard *serve.WriteGuard
	begun bool
}

func (x *eventSender) tell(e *toldEvent) error {
	x.guard.Begin()
	defer x.guard.End()
	return x.to.Send(convert.ToRPCEvent(&e.Event, e.id))
}

func (x *eventSender) flush() error { return nil } // each message is

// alive sends the headers; after that the protocol looks after its connections itself.
func (x *eventSender) alive(string) error {
	if x.begun {
		return nil
	}
	x.begun = true
	return x.to.Send(nil)
}
