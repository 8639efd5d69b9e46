package transport

import (
	"context"
	"errors"
	"fmt"
)

// request is something asked of a peer.
type request struct {
	conn    *conn
	number  uint64
	message *message
	reply   chan reply // has room for the one that comes
}

// reply is an answer, or why there is none.
type reply struct {
	payload []byte
	err     error
}

// manner is how a request is sent.
type manner uint8

const (
	hurried manner = iota // before all that waits
	inOrder               // after what was asked of the group before
	inTurn                // on its own
)

// errUnsent marks errors of requests that nobody can have seen.
var errUnsent = errors.New("not sent")

var errNumbers = errors.New("the connection's group numbers are used up")

func unsent(err error) error { return fmt.Errorf("%w: %w", errUnsent, err) }

// start sends a request. Its payload may not be changed any more.
func (c *conn) start(ctx context.Context, g *Group, kind frameKind, payload []byte, how manner) (*request, error) {
	r, err := c.enrol(g, kind, payload)
	if errors.Is(err, errNumbers) {
		c.fail(errNumbers) // the next connection begins with none
	}
	if err != nil {
		return nil, err
	}
	switch {
	case how == hurried && len(payload) <= MaxFrame:
		if !c.out.hurry(r.message) {
			err = errBroken
		}
	case how == inTurn:
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

// enrol gives a request its number, and its group one too when it has none.
func (c *conn) enrol(g *Group, kind frameKind, payload []byte) (*request, error) {
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

// numberOf is a group's number on this connection. The peer is told of it before
// anything that uses it, since what hurries goes first. c.mu is held.
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
	if !c.out.hurry(&message{header: header{kind: frameGroup, group: n}, payload: g.groupKey.append(nil)}) {
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

// answered hands an answer to who waits for it; nobody may, any more.
func (c *conn) answered(h header, payload []byte) error {
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

// wait is for the answer. Who stops waiting withdraws the request as far as that
// can be done.
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
		r.conn.out.hurry(&message{header: header{kind: frameCancel, request: r.number}})
	}
	return why
}

// ask is a request and its answer.
func (t *Transport) ask(ctx context.Context, to Peer, g *Group, kind frameKind, payload []byte, how manner) ([]byte, error) {
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
