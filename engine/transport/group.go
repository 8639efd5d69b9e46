package transport

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/image"
)

// groupKey is what a group is known by on the wire.
type groupKey struct {
	name        string
	incarnation entry.Incarnation
}

func (k groupKey) append(to []byte) []byte {
	to = appendBytes(to, k.name)
	return append(to, k.incarnation[:]...)
}

// group reads what groupKey.append wrote.
func (c *cursor) group() groupKey {
	k := groupKey{name: c.string()}
	if len(c.rest) < len(k.incarnation) {
		c.fail("an incarnation is cut off")
		return k
	}
	c.rest = c.rest[copy(k.incarnation[:], c.rest):]
	if k.name == "" || len(k.name) > maxName {
		c.fail("a group's name is empty or too long")
	}
	return k
}

func decodeGroupKey(b []byte) (groupKey, error) {
	c := cursor{rest: b}
	k := c.group()
	return k, c.end()
}

// Group is a raft.Transport, with pre-vote, of one group.
type Group struct {
	groupKey
	t        *Transport
	handlers handlers
	consumer chan raft.RPC
	inbox    inbox

	heartbeat atomic.Pointer[func(raft.RPC)]
	admit     atomic.Pointer[func(string) bool]
	staging   atomic.Pointer[image.Staging]

	ctx    context.Context // ends with the Group
	cancel context.CancelFunc

	mu       sync.Mutex
	closed   bool
	wg       sync.WaitGroup
	incoming *transfer // the snapshot that is being received
}

var (
	_ raft.Transport   = (*Group)(nil)
	_ raft.WithPreVote = (*Group)(nil)
	_ raft.WithClose   = (*Group)(nil)
)

// newGroup is called with t.mu held.
func newGroup(t *Transport, name string, incarnation entry.Incarnation) *Group {
	g := &Group{groupKey: groupKey{name, incarnation}, t: t, consumer: make(chan raft.RPC)}
	g.inbox.ready = make(chan struct{}, 1)
	g.ctx, g.cancel = context.WithCancel(t.ctx)
	g.wg.Go(g.feed)
	return g
}

// Handle answers calls of a kind that are made to this group.
func (g *Group) Handle(k Kind, h Handler) { g.handlers.set(k, h) }

// Stage says where the parts of snapshots for this group go. Until then, and
// with nil, snapshots are refused.
func (g *Group) Stage(s image.Staging) {
	if s == nil {
		g.staging.Store(nil)
		return
	}
	g.staging.Store(&s)
}

// Admit says who may speak in the group: it is asked for each message with the
// ID of the sender's certificate, by whoever reads from the sender, so it must be
// quick. nil = everybody whom the Identity trusts.
func (g *Group) Admit(ask func(id string) bool) {
	if ask == nil {
		g.admit.Store(nil)
		return
	}
	g.admit.Store(&ask)
}

func (g *Group) admits(id string) bool {
	ask := g.admit.Load()
	return ask == nil || (*ask)(id)
}

// Consumer is where raft takes its peers' requests from.
func (g *Group) Consumer() <-chan raft.RPC { return g.consumer }

// LocalAddr is the address that peers are told.
func (g *Group) LocalAddr() raft.ServerAddress { return raft.ServerAddress(g.t.address) }

// SetHeartbeatHandler says who answers heartbeats, past the Consumer. It is called
// by whoever reads from the sender.
func (g *Group) SetHeartbeatHandler(handle func(raft.RPC)) {
	if handle == nil {
		g.heartbeat.Store(nil)
		return
	}
	g.heartbeat.Store(&handle)
}

// EncodePeer is an address in raft's messages.
func (g *Group) EncodePeer(_ raft.ServerID, address raft.ServerAddress) []byte {
	return []byte(address)
}

// DecodePeer reads what EncodePeer wrote.
func (g *Group) DecodePeer(b []byte) raft.ServerAddress { return raft.ServerAddress(b) }

// Close ends what is asked in the group, in either direction, at once. It may come
// before raft's shutdown, which then does not wait for peers that are away. It
// waits for Handlers.
func (g *Group) Close() error {
	g.mu.Lock()
	g.closed = true
	incoming := g.incoming
	g.mu.Unlock()
	g.cancel()
	if incoming != nil {
		incoming.stop()
	}
	g.wg.Wait()
	g.t.mu.Lock()
	defer g.t.mu.Unlock()
	if g.t.groups[g.name] == g {
		delete(g.t.groups, g.name)
	}
	return nil
}

// serve runs something that Close waits for and whose context Close ends.
func (g *Group) serve(ctx context.Context, cancel context.CancelFunc, run func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	stop := context.AfterFunc(g.ctx, cancel)
	g.wg.Go(func() {
		defer stop()
		run()
	})
	return true
}

// AppendEntries is raft's. Of more entries than MaxAppend holds it sends as many as
// do, and takes the others out of args: raft goes on behind what it finds there.
func (g *Group) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	args.Entries = args.Entries[:fitting(args.Entries)]
	how := inOrder
	if isHeartbeat(args) {
		how = hurried
	}
	payload := appendAppendRequest(buffer(appendSize(args)), args)
	answer, err := g.rpc(id, target, frameAppend, payload, how)
	if err != nil {
		return err
	}
	return decodeAppendResponse(answer, resp)
}

// MaxAppend bounds the entries of one AppendEntries in bytes, but for a single
// entry that is larger: what is behind it can be had in the next.
const MaxAppend = 4 << 20

// fitting is how many of the entries go in one message, at least one.
func fitting(entries []*raft.Log) int {
	size := 0
	for i, l := range entries {
		if size += logSize(l); size > MaxAppend && i > 0 {
			return i
		}
	}
	return len(entries)
}

// isHeartbeat tells raft's heartbeats as its own transports do.
func isHeartbeat(r *raft.AppendEntriesRequest) bool {
	return r.Term != 0 && len(r.Addr) > 0 && r.PrevLogEntry == 0 &&
		r.PrevLogTerm == 0 && len(r.Entries) == 0 && r.LeaderCommitIndex == 0
}

// RequestVote is raft's.
func (g *Group) RequestVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	answer, err := g.rpc(id, target, frameVote, appendVoteRequest(nil, args), hurried)
	if err != nil {
		return err
	}
	return decodeVoteResponse(answer, resp)
}

// RequestPreVote is raft's.
func (g *Group) RequestPreVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	answer, err := g.rpc(id, target, framePreVote, appendPreVoteRequest(nil, args), hurried)
	if err != nil {
		return err
	}
	return decodePreVoteResponse(answer, resp)
}

// TimeoutNow is raft's.
func (g *Group) TimeoutNow(id raft.ServerID, target raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	answer, err := g.rpc(id, target, frameTimeout, appendRPCHeader(nil, args.RPCHeader), hurried)
	if err != nil {
		return err
	}
	return decodeTimeoutResponse(answer, resp)
}

// rpc asks a member's raft.
func (g *Group) rpc(id raft.ServerID, target raft.ServerAddress, kind frameKind, payload []byte, how manner) ([]byte, error) {
	if len(payload) > MaxMessage {
		return nil, fmt.Errorf("a message of %d bytes to node %q is more than %d", len(payload), id, MaxMessage)
	}
	ctx, cancel := context.WithTimeout(g.ctx, patience(len(payload)))
	defer cancel()
	answer, err := g.t.ask(ctx, Peer{ID: string(id), Address: string(target)}, g, kind, payload, how)
	if err != nil {
		return nil, g.explain(id, err)
	}
	return answer, nil
}

// slowest is the rate, in bytes a second, at which a message may still arrive: one
// that is given up is sent again whole, and would be given up again.
const slowest = 512 << 10

// patience is how long a message of so many bytes may take.
func patience(size int) time.Duration {
	return RPCTimeout + time.Duration(size/slowest)*time.Second
}

func (g *Group) explain(id raft.ServerID, err error) error {
	if g.ctx.Err() != nil {
		return fmt.Errorf("%w: %w", raft.ErrTransportShutdown, ErrClosed)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("node %q gave no answer in time: %w", id, err)
	}
	return fmt.Errorf("node %q: %w", id, err)
}
