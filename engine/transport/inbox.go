package transport

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// The inbox holds the peers' requests to a group's raft. Raft handles one request at a time, so one goroutine
// passes them on in the order of their arrival. Heartbeats and snapshots bypass the inbox.

const (
	// maxInbox and maxInboxBytes bound the requests that wait for raft. Further ones are refused, and their
	// senders try again.
	maxInbox      = 64
	maxInboxBytes = 2 * MaxMessage
)

// raftRequest is a request of a peer to raft.
type raftRequest struct {
	conn     *conn
	request  uint64
	command  any
	size     int
	received time.Time
}

type inbox struct {
	mu       sync.Mutex
	requests []raftRequest
	bytes    int
	ready    chan struct{} // holds a token if requests may wait
}

var errBusy = errors.New("too many requests wait here already")

func (i *inbox) put(l raftRequest) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.requests) >= maxInbox || i.bytes+l.size > maxInboxBytes {
		return errBusy
	}
	i.requests = append(i.requests, l)
	i.bytes += l.size
	select {
	case i.ready <- struct{}{}:
	default:
	}
	return nil
}

func (i *inbox) take() (l raftRequest, ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.requests) == 0 {
		i.requests = nil
		return raftRequest{}, false
	}
	l = i.requests[0]
	i.requests[0] = raftRequest{}
	i.requests = i.requests[1:]
	i.bytes -= l.size
	return l, true
}

// deliver passes requests to raft until the group is closed.
func (g *Group) deliver() {
	for {
		select {
		case <-g.inbox.ready:
		case <-g.ctx.Done():
			return
		}
		for {
			l, ok := g.inbox.take()
			if !ok {
				break
			}
			if time.Since(l.received) > rpcTimeout(l.size) {
				continue // the sender has given up and sends it again
			}
			answer, err := g.submit(raft.RPC{Command: l.command})
			l.conn.raftAnswer(l.request, answer, err)
		}
	}
}

// submit passes a request to raft and returns the answer.
func (g *Group) submit(rpc raft.RPC) (any, error) {
	answers := make(chan raft.RPCResponse, 1)
	rpc.RespChan = answers
	select {
	case g.consumer <- rpc:
	case <-g.ctx.Done():
		return nil, ErrClosed
	}
	select {
	case a := <-answers:
		return a.Response, a.Error
	case <-g.ctx.Done():
		return nil, ErrClosed
	}
}

func remoteErrorf(format string, args ...any) error {
	return remoteError(fmt.Sprintf(format, args...))
}

// addressed returns the group with a number, if the peer may send to it.
func (c *conn) addressed(number uint32) (*peerGroup, *Group, error) {
	their := c.in.groups[number]
	if their == nil {
		return nil, nil, remoteErrorf("group number %d has not been introduced", number)
	}
	if c.impostor.Load() {
		return nil, nil, errIDTaken(c.peer)
	}
	g, err := c.t.enter(their.groupKey, c.peer)
	return their, g, err
}

// enter returns the open group of a key, if the node may send to it.
func (t *Transport) enter(k groupKey, id string) (*Group, error) {
	g := t.group(k.name)
	switch {
	case g == nil:
		return nil, remoteErrorf("group %q is not open on node %q", k.name, t.id)
	case g.incarnation != k.incarnation:
		return nil, remoteErrorf("group %q on node %q is of incarnation %s, not %s: one of them was restored or founded anew", k.name, t.id, g.incarnation, k.incarnation)
	case !g.admits(id):
		return nil, remoteErrorf("node %q may not speak in group %q on node %q", id, k.name, t.id)
	}
	return g, nil
}

// handleRaft handles a request to a group's raft. It looks up the group before it decodes the request.
func (c *conn) handleRaft(h header, payload []byte) error {
	their, g, err := c.addressed(h.group)
	if err != nil {
		c.sendFault(h.request, faultUnseen, err)
		return nil
	}
	command, sender, err := decodeRequest(h.kind, payload)
	if err != nil {
		return err
	}
	if len(sender.ID) > 0 && string(sender.ID) != c.peer {
		c.sendFault(h.request, faultUnseen, remoteErrorf("node %q speaks for %q", c.peer, sender.ID))
		return nil
	}
	if r, ok := command.(*raft.AppendEntriesRequest); ok && isHeartbeat(r) {
		if handle := g.heartbeat.Load(); handle != nil {
			c.answerHeartbeat(their, g, h.request, r, *handle)
			return nil
		}
	}
	if err := g.inbox.put(raftRequest{c, h.request, command, len(payload), time.Now()}); err != nil {
		c.sendFault(h.request, faultUnseen, err)
	}
	return nil
}

func decodeRequest(kind frameKind, payload []byte) (command any, sender raft.RPCHeader, err error) {
	switch kind {
	case frameAppend:
		r, err := decodeAppendRequest(payload)
		return r, r.RPCHeader, err
	case frameVote:
		r, err := decodeVoteRequest(payload)
		return r, r.RPCHeader, err
	case framePreVote:
		r, err := decodePreVoteRequest(payload)
		return r, r.RPCHeader, err
	case frameTimeout:
		r, err := decodeTimeoutRequest(payload)
		return r, r.RPCHeader, err
	}
	return nil, sender, malformed("a request of kind %d", kind)
}

// answerHeartbeat answers a heartbeat. The first heartbeat of a term makes raft write the term to disk, so a
// goroutine of its own answers it. Later ones touch only memory, so the reader answers them itself.
func (c *conn) answerHeartbeat(their *peerGroup, g *Group, request uint64, r *raft.AppendEntriesRequest, handle func(raft.RPC)) {
	answer := func() {
		answers := make(chan raft.RPCResponse, 1)
		handle(raft.RPC{Command: r, RespChan: answers})
		select {
		case a := <-answers:
			c.raftAnswer(request, a.Response, a.Error)
			their.heartbeatTerm.Store(r.Term)
		default: // raft is shutting down
			c.sendFault(request, faultUnseen, ErrClosed)
		}
	}
	if their.heartbeatTerm.Load() == r.Term {
		answer()
	} else {
		c.served.Go(answer)
	}
}

func (c *conn) raftAnswer(request uint64, answer any, err error) {
	if err != nil {
		c.sendFault(request, faultRaft, err)
		return
	}
	payload, err := encodeResponse(answer)
	if err != nil {
		c.sendFault(request, faultRaft, err)
		return
	}
	c.sendAnswer(request, payload)
}

func encodeResponse(answer any) ([]byte, error) {
	switch a := answer.(type) {
	case *raft.AppendEntriesResponse:
		return appendAppendResponse(nil, a), nil
	case *raft.RequestVoteResponse:
		return appendVoteResponse(nil, a), nil
	case *raft.RequestPreVoteResponse:
		return appendPreVoteResponse(nil, a), nil
	case *raft.TimeoutNowResponse:
		return appendRPCHeader(nil, a.RPCHeader), nil
	case *raft.InstallSnapshotResponse:
		return appendSnapshotResponse(nil, a), nil
	}
	return nil, fmt.Errorf("raft answers with a %T, which has no encoding", answer)
}
