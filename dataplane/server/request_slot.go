package server

import "github.com/corvo/corvo/dataplane/op"

// slot is the position of one op among several that goroutines propose at the same time and that must go into
// the log in a fixed order. These ops wait for admission to the backlog and are then admitted one right after
// the other, so that they usually share an entry. An op that never reaches admission does not delay the
// others: see wait.
type slot struct {
	came    chan struct{} // closed when the op waits for admission
	ended   chan struct{} // closed when its goroutine has ended
	admit   func() error
	entered chan error
	used    bool // AdmitInOrder has been called; only the slot's goroutine uses it
}

func newSlot() *slot {
	return &slot{came: make(chan struct{}), ended: make(chan struct{}), entered: make(chan error, 1)}
}

// AdmitInOrder waits until enter admits the op, and returns the result of its admission. A later attempt, and
// a later op of the same goroutine, is admitted at once.
func (t *slot) AdmitInOrder(admit func() error) error {
	if t.used {
		return admit()
	}
	t.used, t.admit = true, admit
	close(t.came)
	return <-t.entered
}

// wait returns when the op waits for admission, or when its goroutine has ended without one.
func (t *slot) wait() {
	select {
	case <-t.came:
	case <-t.ended:
	}
}

// enter admits the op if it waits. The caller must have called wait before.
func (t *slot) enter() {
	select {
	case <-t.came:
		t.entered <- t.admit()
	default:
	}
}

// ordered adds the request's slot to an op. Without a slot it returns the op unchanged.
func (q *request) ordered(o op.Op) op.Op {
	if q.slot == nil {
		return o
	}
	return orderedOp{o, q.slot}
}

// orderedOp is an op that is admitted in its slot.
type orderedOp struct {
	op.Op
	slot *slot
}

// AdmitInOrder implements pipeline.OrderedOp.
func (o orderedOp) AdmitInOrder(admit func() error) error { return o.slot.AdmitInOrder(admit) }
