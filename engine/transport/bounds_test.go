package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/image"
)

// nowhere is a connection that discards its bytes.
type nowhere struct {
	net.Conn
	closed chan struct{}
}

func (n nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n nowhere) Close() error {
	select {
	case <-n.closed:
	default:
		close(n.closed)
	}
	return nil
}

// halfConn returns a connection without its goroutines.
func halfConn(t *testing.T, id string) *conn {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	owner := &Transport{id: "b", ctx: ctx, now: time.Now, peers: map[string]*peer{}, groups: map[string]*Group{}}
	s := newSocket(nowhere{closed: make(chan struct{})})
	return newConn(owner, &link{Conn: tls.Client(s, nil), socket: s}, id, false)
}

func TestCallsUnderWayAreBounded(t *testing.T) {
	t.Parallel()
	end := func() {}
	c := halfConn(t, "a")
	for i := range uint64(maxCalls) {
		if !c.admitCall(i, 1, end) {
			t.Fatalf("call %d is refused", i)
		}
	}
	if c.admitCall(maxCalls, 1, end) {
		t.Error("there is one too many")
	}
	c.leaveCall(7, 1)
	if !c.admitCall(maxCalls, 1, end) {
		t.Error("one was over, and there is no room")
	}
	c.leaveCall(8, 1)
	if c.admitCall(9, 1, end) {
		t.Error("two calls have one number")
	}

	c = halfConn(t, "a")
	if !c.admitCall(1, maxCallBytes-1, end) || !c.admitCall(2, 1, end) {
		t.Error("there was room for all the bytes")
	}
	if c.admitCall(3, 1, end) {
		t.Error("there is one byte too many")
	}
	if c.leaveCall(1, maxCallBytes-1); !c.admitCall(3, maxCallBytes-1, end) {
		t.Error("the bytes are free, and there is no room")
	}
}

// TestACallTooManyIsOverloaded checks that a call beyond the bound is refused as OVERLOADED, so that the
// caller knows that the call was not handled.
func TestACallTooManyIsOverloaded(t *testing.T) {
	t.Parallel()
	c := halfConn(t, "a")
	c.callBytes = maxCallBytes
	c.t.Handle(40, func(context.Context, Peer, []byte) ([]byte, error) {
		t.Error("it is answered")
		return nil, nil
	})
	if err := c.handleCall(header{kind: frameCall, request: 5}, appendCall(t.Context(), 40, []byte("x"))); err != nil {
		t.Fatal(err)
	}
	h, payload, err := readFrame(bytes.NewReader(c.out.take(nil)))
	if err != nil || h.kind != frameFault || h.request != 5 {
		t.Fatalf("%+v, %v", h, err)
	}
	if fault, err := decodeFault(payload); err != nil || api.CodeOf(fault) != api.Overloaded {
		t.Errorf("%v, %v", fault, err)
	}
}

// registry is a context that counts the children that have not been cancelled.
type registry struct {
	context.Context
	done     chan struct{} // differs from the Context's, or a child would register with that
	children atomic.Int64
}

func (r *registry) Done() <-chan struct{} { return r.done }

func (r *registry) AfterFunc(func()) (stop func() bool) {
	r.children.Add(1)
	return func() bool { r.children.Add(-1); return true }
}

// TestACallLeavesNothingInItsConnection checks that the context of an answered call is released, because a
// connection lives for months.
func TestACallLeavesNothingInItsConnection(t *testing.T) {
	t.Parallel()
	c := halfConn(t, "a")
	r := &registry{Context: c.ctx, done: make(chan struct{})}
	c.ctx = r
	c.t.Handle(40, func(context.Context, Peer, []byte) ([]byte, error) { return nil, nil })
	limited, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for i, ctx := range []context.Context{t.Context(), limited} {
		if err := c.handleCall(header{kind: frameCall, request: uint64(i + 1)}, appendCall(ctx, 40, nil)); err != nil {
			t.Fatal(err)
		}
		c.served.Wait()
		if n := r.children.Load(); n != 0 {
			t.Errorf("call %d is answered, and %d of its contexts are left", i, n)
		}
	}
}

func TestAPeersConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	first := halfConn(t, "a")
	owner := first.t
	if !owner.addIncoming(hello{node: "a"}, first) {
		t.Fatal("it is refused")
	}
	for range maxIncoming - 1 {
		c := halfConn(t, "a")
		c.t = owner
		owner.addIncoming(hello{node: "a"}, c)
	}
	if first.ctx.Err() != nil {
		t.Errorf("%d connections are too many", maxIncoming)
	}
	c := halfConn(t, "a")
	c.t = owner
	owner.addIncoming(hello{node: "a"}, c)
	if !errors.Is(context.Cause(first.ctx), errMoved) || len(owner.peers["a"].in) != maxIncoming {
		t.Errorf("the oldest is kept: %v, %d connections", context.Cause(first.ctx), len(owner.peers["a"].in))
	}
}

func TestTextsOfErrorsAreCut(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]int{maxFaultText: maxFaultText, maxFaultText + 1: maxFaultText} {
		text := strings.Repeat("x", size)
		for _, kind := range []faultKind{faultUnseen, faultRaft} {
			fault, err := decodeFault(encodeFault(kind, errors.New(text)))
			if err != nil || strings.Count(fault.Error(), "x") != want {
				t.Errorf("kind %d: of %d bytes %d arrive, %v", kind, size, strings.Count(fault.Error(), "x"), err)
			}
		}
		fault, err := decodeFault(encodeFault(faultCall, api.Errorf(api.Conflict, "%s", text)))
		var e *api.Error
		if err != nil || !errors.As(fault, &e) || len(e.Message) != want {
			t.Errorf("of a message of %d bytes %d arrive, %v", size, len(e.Message), err)
		}
	}
}

// TestTheLargestEntryFits checks that a follower takes the largest entry that a leader can append, because a
// follower that refused an entry could never catch up.
func TestTheLargestEntryFits(t *testing.T) {
	t.Parallel()
	largest := &raft.Log{Data: make([]byte, entry.MaxBytes), Extensions: make([]byte, 8)}
	args := &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ID: make([]byte, MaxInfo), Addr: make([]byte, MaxInfo)},
		Entries:   []*raft.Log{largest, largest},
	}
	args.Entries = args.Entries[:countFitting(args.Entries)]
	if len(args.Entries) != 1 || appendSize(args) > MaxMessage {
		t.Errorf("%d entries take %d bytes, and a message at most %d", len(args.Entries), appendSize(args), MaxMessage)
	}
	if err := (&inbox{ready: make(chan struct{}, 1)}).put(raftRequest{size: appendSize(args)}); err != nil {
		t.Error(err)
	}
}

func TestHellosAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxName)
	for name, x := range map[string]struct {
		hello
		ok bool
	}{
		"all at their bounds": {hello{Version, long, forSnapshot, long, make([]byte, MaxInfo)}, true},
		"the node":            {hello{Version, long + "x", forMessages, "", nil}, false},
		"the address":         {hello{Version, "a", forMessages, long + "x", nil}, false},
		"the info":            {hello{Version, "a", forMessages, "", make([]byte, MaxInfo+1)}, false},
		"the purpose":         {hello{Version, "a", forSnapshot + 1, "", nil}, false},
	} {
		if _, err := decodeHello(x.hello.append(nil)); (err == nil) != x.ok || err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for size, ok := range map[int]bool{maxName: true, maxName + 1: false} {
		k := groupKey{strings.Repeat("x", size), entry.Incarnation{}}
		if _, err := decodeGroupKey(k.append(nil)); (err == nil) != ok {
			t.Errorf("a group's name of %d bytes: %v", size, err)
		}
	}
}

// withTable returns an offer whose table of parts has the given size.
func withTable(size int) offer {
	o := snapshotOffer()
	o.parts = []image.Part{{Name: "x", Size: 1}}
	more := size - len(o.append(nil))
	o.parts[0].Name += strings.Repeat("y", more-binaryGrowth(more))
	return o
}

// binaryGrowth returns the extra bytes of the length of a name with n bytes.
func binaryGrowth(n int) int { return len(appendBytes(nil, make([]byte, n))) - n - 1 }

// two returns both ends of a connection in this process.
func two(t *testing.T) (here, there *transferConn) {
	t.Helper()
	a, b := net.Pipe()
	t.Cleanup(func() {
		_ = a.Close()
		_ = b.Close()
	})
	return &transferConn{net: a}, &transferConn{net: b}
}

func TestTheTableOfPartsIsBounded(t *testing.T) {
	t.Parallel()
	for size, ok := range map[int]bool{MaxManifest: true, MaxManifest + 1: false} {
		o := withTable(size)
		table := o.append(nil)
		if len(table) != size {
			t.Fatalf("the table has %d bytes, not %d", len(table), size)
		}
		here, there := two(t)
		sent := make(chan error, 1)
		go func() { sent <- here.write(header{kind: frameSnapshot}, table) }()
		got, err := there.message(frameSnapshot, MaxManifest)
		if (err == nil) != ok || ok && !slices.Equal(got, table) || !ok && !errors.Is(err, ErrMalformed) {
			t.Errorf("of a table of %d bytes %d arrive, %v", size, len(got), err)
		}
		_ = there.net.Close()
		<-sent
		if !ok {
			s := &sending{}
			if _, err := s.send(o, nil); err == nil || !strings.Contains(err.Error(), "the table of 1 parts") {
				t.Errorf("it is sent: %v", err)
			}
		}
	}
}

// TestLatePingsDoNotCount checks that a process that was suspended does not blame its peers for the silence.
func TestLatePingsDoNotCount(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000, 0)
	for name, x := range map[string]struct {
		last, due, now time.Duration
		want           bool
	}{
		"on time":                {0, pingEvery, pingEvery, true},
		"a little late":          {0, pingEvery, pingEvery + maxPingDelay - 1, true},
		"late":                   {0, pingEvery, pingEvery + maxPingDelay, false},
		"one was skipped":        {0, 2 * pingEvery, 2 * pingEvery, false},
		"the one before is late": {0, pingEvery + maxPingDelay, pingEvery + maxPingDelay, false},
	} {
		if got := onTime(at.Add(x.last), at.Add(x.due), at.Add(x.now)); got != x.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	c := halfConn(t, "a")
	c.isDead(true)
	for range 100 {
		if c.isDead(false) {
			t.Fatal("pings that were late have ended it")
		}
	}
	for range maxMissedPings {
		if c.isDead(true) {
			t.Fatal("it ends too early")
		}
	}
	if !c.isDead(true) {
		t.Error("it does not end")
	}
	c.markAlive()
	if c.isDead(true) {
		t.Error("it was heard of, and ends")
	}
}

// TestAPeersTransfersAreBounded checks that a receiver takes maxReceiving snapshots of one sender at a time
// and refuses the next. The bound is above the number that a sender opens, because the receiver may not have
// noticed that earlier connections are lost.
func TestAPeersTransfersAreBounded(t *testing.T) {
	t.Parallel()
	owner := halfConn(t, "a").t
	offered := snapshotOffer()
	take := func() error {
		here, there := two(t)
		go func() { _ = here.write(header{kind: frameSnapshot}, offered.append(nil)) }()
		_, err := owner.receiveBounded(there, "a")
		return err
	}
	for receiving, refusal := range map[int]string{maxReceiving - 1: "is not open", maxReceiving: "receives 8 snapshots"} {
		owner.peer("a").receiving = receiving
		if err := take(); err == nil || !strings.Contains(err.Error(), refusal) {
			t.Errorf("with %d under way: %v", receiving, err)
		}
		if got := owner.peers["a"].receiving; got != receiving {
			t.Errorf("%d are under way, not %d", got, receiving)
		}
	}
}
