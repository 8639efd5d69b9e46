package server

import "github.com/corvo/corvo/dataplane/op"

// turn is the place of one op among several that are proposed side by side, each by a
// goroutine of its own, and shall go into the log in an order: all of them gather at the
// backlog's door and are let in one right after the other, so that they mostly go as one
// entry. One that never comes to the door keeps nobody waiting: see wait.
type turn struct {
	came    chan struct{} // closed when the op is at the door
	ended   chan struct{} // closed when its goroutine has ended
	admit   func() error
	entered chan error
	used    bool // by its goroutine alone
}

func newTurn() *turn {
	return &turn{came: make(chan struct{}), ended: make(chan struct{}), entered: make(chan error, 1)}
}

// AdmitInOrder waits until enter admits the op, and returns the result of its admission. A
// later op of the same goroutine is admitted at once.
func (t *turn) AdmitInOrder(admit func() error) error {
	if t.used {
		return admit()
	}
	t.used, t.admit = true, admit
	close(t.came)
	return <-t.entered
}

// wait returns when the op is at the door, or will not come there.
func (t *turn) wait() {
	select {
	case <-t.came:
	case <-t.ended:
	}
}

// enter lets the op in, if it is at the door.
func (t *turn) enter() {
	select {
	case <-t.came:
		t.entered <- t.admit()
	default:
	}
}

// inTurn is an op as a request proposes it.
func (q *request) inTurn(o op.Op) op.Op {
	if q.turn == nil {
		return o
	}
	return boardedOp{o, q.turn}
}

// boardedOp is an op that waits for its turn.
type boardedOp struct {
	op.Op
	turn *turn
}

// AdmitInOrder implements pipeline.OrderedOp.
func (o boardedOp) AdmitInOrder(admit func() error) error { return o.turn.AdmitInOrder(admit) }
