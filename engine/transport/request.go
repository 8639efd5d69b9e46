package transport

import (
	"context"
	"errors"
	"fmt"
)

// request is a request to a peer.
type request struct {
	conn    *conn
	number  uint64
	message *message
	reply   chan reply // has room for the one reply
}

// reply is an answer or an error.
type reply struct {
	payload []byte
	err     error
}

// priority sets the queue for a request.
type priority uint8

const (
	urgent      priority = iota // before the messages of all streams
	groupStream                 // after the earlier requests of the group
	ownStream                   // in a stream of its own
)

// errUnsent marks errors of requests that no peer can have seen.
var errUnsent = errors.New("not sent")

var errNumbers = errors.New("the connection's group numbers are used up")

func unsent(err error) error { return fmt.Errorf("%w: %w", errUnsent, err) }

// start queues a request to be sent, and waits while too many bytes are queued, unless the request is urgent.
// The caller must not change the payload any more. An error means that the request was not sent.
func (c *conn) start(ctx context.Context, g *Group, kind frameKind, payload []byte, how priority) (*request, error) {
	r, err := c.register(g, kind, payload)
	if errors.Is(err, errNumbers) {
		c.fail(errNumbers) // the next connection starts with none
	}
	if err != nil {
		return nil, err
	}
	switch {
	case how == urgent && len(payload) <= MaxFrame:
		if !c.out.enqueueUrgent(r.message) {
			err = errBroken
		}
	case how == ownStream:
		err = c.out.put(ctx, 1<<32+r.number, r.message)
	default:
		err = c.out.put(ctx, uint64(r.message.header.group), r.message)
	}
	if err != nil {
		c.forget(r.number)
		return nil, unsent(err)
	}
	return r, nil
}

// register assigns a number to a request, and to its group if it has none yet.
func (c *conn) register(g *Group, kind frameKind, payload []byte) (*request, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == nil {
		return nil, unsent(errBroken)
	}
	number, err := c.numberOf(g)
	if err != nil {
		return nil, unsent(err)
	}
	c.asked++
	m := &message{header: header{kind: kind, request: c.asked, group: number}, payload: payload}
	r := &request{conn: c, number: c.asked, message: m, reply: make(chan reply, 1)}
	c.waiting[r.number] = r
	return r, nil
}

// numberOf returns a group's number on this connection. The peer is told of a new number before any message
// uses it, because urgent messages go first. The caller holds c.mu.
func (c *conn) numberOf(g *Group) (uint32, error) {
	if g == nil {
		return 0, nil
	}
	if n := c.numbers[g.groupKey]; n != 0 {
		return n, nil
	}
	if len(c.numbers) >= maxGroups {
		return 0, errNumbers
	}
	n := uint32(len(c.numbers) + 1)
	if !c.out.enqueueUrgent(&message{header: header{kind: frameGroup, group: n}, payload: g.groupKey.append(nil)}) {
		return 0, errBroken
	}
	c.numbers[g.groupKey] = n
	return n, nil
}

func (c *conn) forget(number uint64) {
	c.mu.Lock()
	delete(c.waiting, number)
	c.mu.Unlock()
}

// handleAnswer passes an answer to the waiting caller, if it still waits.
func (c *conn) handleAnswer(h header, payload []byte) error {
	c.mu.Lock()
	r := c.waiting[h.request]
	delete(c.waiting, h.request)
	c.mu.Unlock()
	if h.kind == frameAnswer {
		if r != nil {
			r.reply <- reply{payload: payload}
		}
		return nil
	}
	fault, err := decodeFault(payload)
	if err != nil {
		return err
	}
	if r != nil {
		r.reply <- reply{err: fault}
	}
	return nil
}

// wait waits for the answer. If ctx ends, it withdraws the request as far as possible.
func (r *request) wait(ctx context.Context) ([]byte, error) {
	select {
	case p := <-r.reply:
		if errors.Is(p.err, errBroken) && !r.conn.out.withdraw(r.message) {
			return nil, unsent(p.err)
		}
		return p.payload, p.err
	case <-ctx.Done():
		return nil, r.abandon(ctx.Err())
	}
}

func (r *request) abandon(why error) error {
	r.conn.forget(r.number)
	if !r.conn.out.withdraw(r.message) {
		return unsent(why)
	}
	if r.message.header.kind == frameCall {
		r.conn.out.enqueueUrgent(&message{header: header{kind: frameCancel, request: r.number}})
	}
	return why
}

// roundTrip sends a request and waits for its answer.
func (t *Transport) roundTrip(ctx context.Context, to Peer, g *Group, kind frameKind, payload []byte, how priority) ([]byte, error) {
	c, err := t.connection(ctx, to)
	if err != nil {
		return nil, unsent(err)
	}
	r, err := c.start(ctx, g, kind, payload, how)
	if err != nil {
		return nil, err
	}
	return r.wait(ctx)
}
