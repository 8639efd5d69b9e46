package transport

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"
)

// drain returns the frames of an outbox, write by write.
func drain(t *testing.T, o *outbox) (frames []header) {
	t.Helper()
	for {
		b := o.take(nil)
		if len(b) == 0 {
			return frames
		}
		for r := bytes.NewReader(b); r.Len() > 0; {
			h, _, err := readFrame(r)
			if err != nil {
				t.Fatal(err)
			}
			frames = append(frames, h)
		}
	}
}

func data(request uint64, size int) *message {
	return &message{header: header{kind: frameCall, request: request}, payload: make([]byte, size)}
}

func put(t *testing.T, o *outbox, stream uint64, m *message) {
	t.Helper()
	if err := o.put(t.Context(), stream, m); err != nil {
		t.Fatal(err)
	}
}

func TestNothingWaitsBehindALongMessage(t *testing.T) {
	t.Parallel()
	o := newOutbox()
	long := data(1, 10*MaxFrame)
	put(t, o, 1, long)
	put(t, o, 2, data(2, 10))
	put(t, o, 1, data(3, 10))
	first := o.take(nil)
	if len(first) > batch+MaxFrame+headerSize {
		t.Errorf("%d bytes go in one write", len(first))
	}
	o.enqueueUrgent(data(4, 10))
	var order []uint64
	for _, h := range drain(t, o) {
		order = append(order, h.request)
	}
	if order[0] != 4 {
		t.Errorf("what hurries comes behind %v", order)
	}
	if order[len(order)-1] != 3 {
		t.Errorf("a stream's order is lost: %v", order)
	}
	if h, _ := parseHeader((*[headerSize]byte)(first[MaxFrame+headerSize:])); h.request != 2 {
		t.Errorf("the second stream waits for the first: %+v", h)
	}
	if o.queued != 0 || len(o.streams) != 0 {
		t.Errorf("%d bytes and %d streams are left", o.queued, len(o.streams))
	}
}

func TestAnOutboxIsBounded(t *testing.T) {
	t.Parallel()
	o := newOutbox()
	if err := o.put(t.Context(), 1, data(1, maxQueued-1)); err != nil {
		t.Fatal(err)
	}
	if err := o.put(t.Context(), 2, data(2, 1)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := o.put(ctx, 3, data(3, 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("it is full: %v", err)
	}
	put := make(chan error)
	go func() { put <- o.put(t.Context(), 3, data(3, 1)) }()
	drain(t, o)
	if err := <-put; err != nil {
		t.Error(err)
	}
	fill := data(4, maxQueued)
	if err := o.put(t.Context(), 4, fill); err != nil {
		t.Fatal(err)
	}
	go func() { put <- o.put(t.Context(), 5, data(5, 1)) }()
	o.close()
	if err := <-put; !errors.Is(err, errBroken) {
		t.Errorf("%v", err)
	}
}

func TestAMessageCanBeWithdrawn(t *testing.T) {
	t.Parallel()
	o := newOutbox()
	waits, begun, gone := data(1, 10), data(2, 10*MaxFrame), data(3, 10)
	o.enqueueUrgent(gone)
	put(t, o, 2, begun)
	o.take(nil)
	put(t, o, 1, waits)
	if o.withdraw(waits) || o.withdraw(begun) {
		t.Error("they are said to be sent")
	}
	if !o.withdraw(gone) {
		t.Error("it is said not to be sent")
	}
	frames := drain(t, o)
	if len(frames) != 1 || o.queued != 0 {
		t.Fatalf("%+v, %d bytes", frames, o.queued)
	}
	if f := frames[0]; f.kind != frameCancel || f.request != 2 {
		t.Errorf("%+v", f)
	}
}

func TestUrgentMessagesAreBounded(t *testing.T) {
	t.Parallel()
	o := newOutbox()
	for range maxUrgent {
		if !o.enqueueUrgent(data(1, 0)) {
			t.Fatal("there was room")
		}
	}
	if o.enqueueUrgent(data(1, 0)) {
		t.Error("there was no room")
	}
	if n := len(drain(t, o)); n != maxUrgent || !o.enqueueUrgent(data(1, 0)) {
		t.Errorf("%d were sent", n)
	}
}
